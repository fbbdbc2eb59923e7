# kraftlog with everything that a run needs: docker build -t kraftlog:0.1.0 .
# Two stages: what only builds the wheel, and compiles it and crcmod, stays behind.
FROM python:3.12-slim-bookworm AS build

# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --no-install-recommends --yes gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The versions of the lock, without the packages that only tests want.
RUN sed -n 's/^\([a-zA-Z0-9._-]*==.*[^ ]\) *\\$/\1/p' requirements.lock > constraints.txt \
 && python -m venv /opt/kraftlog \
 && /opt/kraftlog/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
 && /opt/kraftlog/bin/pip install --no-cache-dir --no-build-isolation \
        --use-pep517 -c constraints.txt '.[all]' \
 && /opt/kraftlog/bin/pip uninstall --yes ziglang

FROM python:3.12-slim-bookworm

# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --no-install-recommends --yes openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home audit
COPY --from=build /opt/kraftlog /opt/kraftlog
USER 10001
# No jars: what a run writes, it writes without them.
ENV PATH=/opt/kraftlog/bin:$PATH GX_ANALYTICS_ENABLED=false HOME=/tmp
WORKDIR /audit
ENTRYPOINT ["kraftlog"]
CMD ["--help"]
