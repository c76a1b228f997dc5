"""A file system of SQLite that is full, or broken, when a test says so."""

import apsw


class FailingFile(apsw.VFSFile):
    """A file whose writes fail once the budget of its file system is spent."""

    def __init__(self, system, name, flags):
        super().__init__(system.base_name, name, flags)
        self.system = system

    def xWrite(self, data, offset):
        self.system.spend()
        return super().xWrite(data, offset)

    def xSync(self, flags):
        self.system.spend()
        return super().xSync(flags)


class FailingSystem(apsw.VFS):
    """A file system that is full, or broken, after so many writes, for so many more."""

    def __init__(self, name, error):
        self.name, self.base_name, self.left, self.failures, self.error = name, "", None, 0, error
        super().__init__(name, self.base_name)

    def spend(self):
        if self.left is None:
            return
        self.left -= 1
        if -self.failures <= self.left < 0:
            raise self.error

    def xOpen(self, name, flags):
        return FailingFile(self, name, flags)


class WatchedFile(apsw.VFSFile):
    """A file that tells before each write, or after each sync."""

    def __init__(self, system, name, flags):
        super().__init__("", name, flags)
        self.system = system

    def xWrite(self, data, offset):
        if self.system.point == "write":
            self.system.here()
        return super().xWrite(data, offset)

    def xSync(self, flags):
        super().xSync(flags)
        if self.system.point == "synced":
            self.system.here()


class WatchedSystem(apsw.VFS):
    """A file system that calls `here` before each "write", or once something is "synced"."""

    def __init__(self, name, here, point):
        self.name, self.here, self.point = name, here, point
        super().__init__(name, "")

    def xOpen(self, name, flags):
        return WatchedFile(self, name, flags)
