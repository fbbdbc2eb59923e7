"""`python -m kraftlog.reference` (`make docs`) writes all generated pages of the checkout."""

from kraftlog.reference.pages import write_pages

if __name__ == "__main__":
    for changed in write_pages():
        print(changed)
