from kraftlog.api import (
    AuditResult as AuditResult,
)
from kraftlog.api import (
    Copies as Copies,
)
from kraftlog.api import (
    Copy as Copy,
)
from kraftlog.api import (
    Decoder as Decoder,
)
from kraftlog.api import (
    Difference as Difference,
)
from kraftlog.api import (
    Fault as Fault,
)
from kraftlog.api import (
    Finding as Finding,
)
from kraftlog.api import (
    ForeignRecord as ForeignRecord,
)
from kraftlog.api import (
    Image as Image,
)
from kraftlog.api import (
    InputError as InputError,
)
from kraftlog.api import (
    KraftlogError as KraftlogError,
)
from kraftlog.api import (
    UsageError as UsageError,
)
from kraftlog.api import (
    diff as diff,
)
from kraftlog.api import (
    open as open,
)
from kraftlog.api import (
    read_partition as read_partition,
)
from kraftlog.api import (
    versioned as versioned,
)

__version__: str
