"""Files for a component of one's own: `new_files` says which, `write_new` writes them, all or none."""

from mygym.scaffold.kinds import KINDS, Request, new_files
from mygym.scaffold.writing import write_new

__all__ = ["KINDS", "Request", "new_files", "write_new"]
