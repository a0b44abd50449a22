import ChildProcesses
import Glibc

/// A small file system of its own that can be broken while somebody writes to it: full, read-only, failing, stuck. Needs root.
///
/// It is mounted in a mount namespace of its own. In this process's, every other process that unshares it would get a copy of
/// the mount, and what is unmounted here would live on there, broken as it is.
///
/// A process of its own, the guard, takes it away when it is removed, when this process has ended in whatever way, or when its
/// time is up: nothing that goes wrong here leaves a frozen file system, a mount or a loop device behind.
package final class FaultyDisk {
  package enum Kind: Sendable {
    /// ext4 on a file, by a loop device.
    case ext4
    /// A file system in memory.
    case tmpfs
  }

  /// Where its files are, for this process and others like it.
  package var path: String { "/proc/\(guardProcess)/root\(pathInside)" }
  /// The same for programs that are started ``inside(_:)``.
  package var pathInside: String { "\(home)/mounted" }
  private let home: String
  private let kind: Kind
  private let guardProcess: pid_t
  /// The guard acts when it is told a line, or this is closed.
  private var guardInput: Int32

  /// Why there can be none here, in a sentence without its end; `nil` if there can.
  package static var obstacle: String? {
    guard getuid() == 0 else { return "mounting file systems needs root" }
    guard access("/dev/loop-control", W_OK) == 0 else { return "there are no loop devices" }
    guard (try? Shell.run("command -v mkfs.ext4 mount losetup")) != nil else { return "there is no mkfs.ext4" }
    guard (try? Shell.run("unshare --mount true && command -v nsenter")) != nil else {
      return "mount namespaces are refused"
    }
    return nil
  }

  /// Makes one.
  ///
  /// - Parameters:
  ///   - kind: What it is.
  ///   - mebibytes: How large it is. ext4 has a journal from 2 MiB on.
  ///   - seconds: How long it exists at most: then it is thawed and goes, whoever uses it.
  /// - Throws: ``FaultyDiskError``.
  package init(_ kind: Kind, mebibytes: Int, seconds: Int) throws(FaultyDiskError) {
    self.kind = kind
    let place = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    var template = Array("\(place)/culprit-disk-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw FaultyDiskError("mkdtemp", errno) }
    home = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) }
    // Before there is anything to be taken away.
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

  private func mountImage() throws(FaultyDiskError) {
    try run("mount -t ext4 -o loop,errors=remount-ro '\(home)/image' '\(pathInside)'")
  }

  private func run(_ command: String) throws(FaultyDiskError) { try Shell.run(command, in: guardProcess) }

  /// The words that run `program` where the file system is mounted: the process that is started becomes it.
  package func inside(_ program: [String]) -> [String] { Shell.entering(guardProcess) + program }

  /// Takes it away.
  package func remove() {
    guard guardInput >= 0 else { return }
    Spawn.write("\n".utf8, to: guardInput)
    close(guardInput)
    guardInput = -1
    _ = Spawn.end(guardProcess)
  }

  package func removeDirectory(_ name: String, andMakesNew: Bool) throws(FaultyDiskError) {
    try run("cd '\(pathInside)' && rm -r '\(name)'\(andMakesNew ? " && mkdir -m 700 '\(name)'" : "")")
  }

  /// Leaves no room.
  package func fill() throws(FaultyDiskError) {
    let file = open("\(path)/ballast", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw FaultyDiskError("ballast", errno) }
    defer { close(file) }
    for size in [4096, 1] {
      let ballast = [UInt8](repeating: 1, count: size)
      while write(file, ballast, size) > 0 {}
    }
  }

  /// Makes room again.
  package func drain() { unlink("\(path)/ballast") }

  /// Makes it read-only, also for files that are open for writing, as the kernel does when it finds an error: EROFS.
  package func makeReadOnly() throws(FaultyDiskError) { try run("mount -o remount,abort '\(pathInside)'") }

  /// Makes everything fail from now on, as when a disk is pulled out: EIO. What had not reached the disk is lost.
  package func pullOut() throws(FaultyDiskError) {
    let directory = try opened()
    defer { close(directory) }
    // Neither the log nor the data are written before.
    var flags: UInt32 = 2
    // SAFETY: FS_IOC_SHUTDOWN reads a number of 32 bits.
    guard ioctl(directory, 0x8004_587d, &flags) == 0 else { throw FaultyDiskError("shutdown", errno) }
  }

  /// Makes whoever writes to it wait in the kernel, where not even SIGKILL reaches them, until ``thaw()``.
  package func freeze() throws(FaultyDiskError) {
    let directory = try opened()
    defer { close(directory) }
    guard ioctl(directory, 0xc004_5877, 0) == 0 else { throw FaultyDiskError("freeze", errno) }
  }

  /// Lets those go on. Returns whether it was frozen until now.
  package func thaw() -> Bool {
    guard let directory = try? opened() else { return false }
    defer { close(directory) }
    return ioctl(directory, 0xc004_5878, 0) == 0
  }

  /// Mounts it anew, after what cannot be undone.
  package func mountAgain() throws(FaultyDiskError) {
    // A child that this process is about to start may have a copy of a descriptor for a moment.
    try run("for i in $(seq 300); do umount '\(pathInside)' && exit; sleep 0.1; done; exit 1")
    try mountImage()
  }

  /// How many bytes have been written to the device, and how often it was told to make them safe; `nil` without a device.
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

  private func opened() throws(FaultyDiskError) -> Int32 {
    let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { throw FaultyDiskError(path, errno) }
    return directory
  }
}

/// Why something could not be done to a disk, or to a service.
package struct FaultyDiskError: Error, CustomStringConvertible {
  /// The reason.
  package let description: String

  init(_ description: String) { self.description = description }

  init(_ what: String, _ error: Int32) { self.init("\(what): \(String(cString: strerror(error)))") }
}
