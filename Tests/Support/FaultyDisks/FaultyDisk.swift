import ChildProcesses
import Glibc

/// A small private file system that tests can fill, freeze, make read-only or let fail. Needs root.
///
/// The file system is mounted in a separate mount namespace. In this process's namespace, any process that calls
/// unshare(2) would copy the mount and keep the broken file system alive after the unmount.
///
/// A guard process unmounts it on removal, when this process ends, or at the time limit. No failure leaves a frozen
/// file system, a mount or a loop device behind.
package final class FaultyDisk {
  package enum Kind: Sendable {
    /// ext4 on a file, by a loop device.
    case ext4
    /// A file system in memory.
    case tmpfs
  }

  /// The mount point, for processes outside its mount namespace.
  package var path: String { "/proc/\(guardProcess)/root\(pathInside)" }
  /// The mount point, for programs started by ``inside(_:)``.
  package var pathInside: String { "\(home)/mounted" }
  private let home: String
  private let kind: Kind
  private let guardProcess: pid_t
  /// The guard's standard input. The guard cleans up when it reads a line or end of file.
  private var guardInput: Int32

  /// The reason why no disk can be created, as a sentence without a period, or `nil`.
  package static var obstacle: String? {
    guard getuid() == 0 else { return "mounting file systems needs root" }
    guard access("/dev/loop-control", W_OK) == 0 else { return "there are no loop devices" }
    guard (try? Shell.run("command -v mkfs.ext4 mount losetup")) != nil else { return "there is no mkfs.ext4" }
    guard (try? Shell.run("unshare --mount true && command -v nsenter")) != nil else {
      return "mount namespaces are refused"
    }
    return nil
  }

  /// Creates and mounts a file system.
  ///
  /// - Parameters:
  ///   - kind: The type of the file system.
  ///   - mebibytes: The size in MiB. ext4 has a journal from 2 MiB on.
  ///   - seconds: The lifetime in seconds, after which the guard thaws and unmounts it even if it is in use.
  /// - Throws: ``SpawnError``.
  package init(_ kind: Kind, mebibytes: Int, seconds: Int) throws(SpawnError) {
    self.kind = kind
    let place = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    var template = Array("\(place)/culprit-disk-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SpawnError("mkdtemp", errno) }
    home = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) }
    // The guard must run before the mount.
    (guardProcess, guardInput) = try Shell.start(
      "echo; exec >/dev/null; timeout \(seconds) head -n 1; cd '\(home)' || exit; fsfreeze -u mounted; "
        + "umount mounted || umount -l mounted; rm -rf --one-file-system '\(home)'"
    )
    try run("mkdir '\(pathInside)'")
    switch kind {
    case .tmpfs: try run("mount -t tmpfs -o size=\(mebibytes)m,mode=700 tmpfs '\(pathInside)'")
    case .ext4:
      let journal = mebibytes < 2 ? "-O ^has_journal" : "-J size=1"
      let image = "\(home)/image"
      try run("truncate -s \(mebibytes)M '\(image)' && mkfs.ext4 -q -b 1024 -m 0 \(journal) '\(image)'")
      try mountImage()
    }
  }

  deinit { remove() }

  private func mountImage() throws(SpawnError) {
    try run("mount -t ext4 -o loop,errors=remount-ro '\(home)/image' '\(pathInside)'")
  }

  private func run(_ command: String) throws(SpawnError) { try Shell.run(command, in: guardProcess) }

  /// The command line that runs `program` in the mount namespace of the file system. nsenter(1) becomes `program` by
  /// execve(2), so the process id stays valid.
  package func inside(_ program: [String]) -> [String] { Shell.entering(guardProcess) + program }

  /// Unmounts and deletes the file system.
  package func remove() {
    guard guardInput >= 0 else { return }
    Spawn.write("\n".utf8, to: guardInput)
    close(guardInput)
    guardInput = -1
    _ = Spawn.end(guardProcess)
  }

  package func removeDirectory(_ name: String, andMakesNew: Bool) throws(SpawnError) {
    try run("cd '\(pathInside)' && rm -r '\(name)'\(andMakesNew ? " && mkdir -m 700 '\(name)'" : "")")
  }

  /// Fills the file system until no byte is free.
  package func fill() throws(SpawnError) {
    let file = open("\(path)/ballast", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw SpawnError("ballast", errno) }
    defer { close(file) }
    for size in [4096, 1] {
      let ballast = [UInt8](repeating: 1, count: size)
      while write(file, ballast, size) > 0 {}
    }
  }

  /// Frees the space that ``fill()`` has taken.
  package func drain() { unlink("\(path)/ballast") }

  /// Remounts it read-only, as the kernel does after an error. Writes fail with EROFS, even to files open for writing.
  package func makeReadOnly() throws(SpawnError) { try run("mount -o remount,abort '\(pathInside)'") }

  /// Makes all further operations fail with EIO, as when a disk is pulled out. Unwritten data is lost.
  package func pullOut() throws(SpawnError) {
    let directory = try opened()
    defer { close(directory) }
    // FS_SHUTDOWN_FLAGS_NOLOGFLUSH: neither the log nor the data are flushed.
    var flags: UInt32 = 2
    // SAFETY: FS_IOC_SHUTDOWN reads a number of 32 bits.
    guard ioctl(directory, 0x8004_587d, &flags) == 0 else { throw SpawnError("shutdown", errno) }
  }

  /// Blocks all writers in the kernel until ``thaw()``. Even SIGKILL does not end them.
  package func freeze() throws(SpawnError) {
    let directory = try opened()
    defer { close(directory) }
    guard ioctl(directory, 0xc004_5877, 0) == 0 else { throw SpawnError("freeze", errno) }
  }

  /// Resumes blocked writers. Returns whether the file system was frozen.
  package func thaw() -> Bool {
    guard let directory = try? opened() else { return false }
    defer { close(directory) }
    return ioctl(directory, 0xc004_5878, 0) == 0
  }

  /// Unmounts and mounts it again, after an irreversible failure.
  package func mountAgain() throws(SpawnError) {
    // umount(8) fails while a starting child of this process holds a copy of a descriptor.
    try run("for i in $(seq 300); do umount '\(pathInside)' && exit; sleep 0.1; done; exit 1")
    try mountImage()
  }

  /// The bytes written to the device and the number of its cache flushes; `nil` without a device.
  package var written: (bytes: Int, flushes: Int)? {
    var information = stat()
    guard kind == .ext4, stat(path, &information) == 0 else { return nil }
    let device = "\(information.st_dev >> 8 & 0xfff):\(information.st_dev & 0xff)"
    guard let text = try? Shell.run("cat /sys/dev/block/\(device)/stat") else { return nil }
    let numbers = text.split { $0 == " " || $0 == "\n" }.compactMap { Int($0) }
    // Documentation/block/stat.rst: sectors of 512 bytes.
    guard numbers.count >= 16 else { return nil }
    return (numbers[6] * 512, numbers[15])
  }

  private func opened() throws(SpawnError) -> Int32 {
    let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { throw SpawnError(path, errno) }
    return directory
  }
}
