import CCulpritLinux
import CulpritBlame
import CulpritStallRecord
import Glibc

/// The owners of file locks that block this process, read from `/proc/locks` (proc(5)). An owner is a process or an
/// open file description, never a thread.
struct FileLocks {
  /// Earliest time of the next read of `/proc/locks`, which lists the locks of the whole machine.
  private var next: UInt64 = 0

  private static let interval: UInt64 = 1_000_000_000
  /// Longest part of `/proc/locks` that is read.
  private static let bytesMax = 1 << 20
  /// Descriptors whose files a sleeping thread might try to lock.
  private static let descriptors: Range<Int32> = 0..<1024

  /// Returns a note with the owner of the file lock for which the thread of `sample` waits; at most one a second. A
  /// sleeping thread also counts, because it might try the lock repeatedly.
  mutating func note(_ sample: Sample, _ process: ObservedProcess, now: UInt64) -> StallNote? {
    guard case .inSystemCall(let call) = sample.activity, now >= next,
      let name = SystemCalls.name(of: call, architecture: process.architecture)
    else { return nil }
    if SystemCalls.isSleep(name, sample.arguments) {
      next = now &+ Self.interval
      return Self.triedLock(process.id)
    }
    guard name == "flock" || name == "fcntl", let descriptor = sample.descriptor, descriptor.number >= 0 else {
      return nil
    }
    next = now &+ Self.interval
    guard let inode = Self.inode(ProcessMap.readAll("/proc/thread-self/fdinfo/\(descriptor.number)") ?? ""),
      let holder = Self.holder(in: Self.list(), waiter: process.id, inode: inode)
    else { return nil }
    return StallNote(.fileLock, title: Self.name(holder, process.id), text: descriptor.target)
  }

  private static func list() -> String { ProcessMap.readAll("/proc/locks", atMost: bytesMax) ?? "" }

  private static func name(_ holder: Int32, _ process: Int32) -> String {
    guard holder != process else { return "this process, through another descriptor" }
    let name = (ProcessMap.readAll("/proc/\(holder)/comm") ?? "").prefix { $0 != "\n" }
    return "process \(holder)\(name.isEmpty ? "" : " (\(name))")"
  }

  private static func triedLock(_ process: Int32) -> StallNote? {
    // Without statx(2), identifying a descriptor can block in its file system.
    guard clinux_process_is_kernels("/proc/locks") else { return nil }
    let locks = list().split(separator: "\n").compactMap(Lock.init)
    let files = Set(locks.map(\.file))
    var open: [Lock.File: [Int32]] = [:]
    for number in files.isEmpty ? 0..<0 : descriptors {
      var found = clinux_descriptor()
      guard clinux_descriptor_identify(number, &found) else { continue }
      let file = Lock.File(device: found.device, inode: found.inode)
      if files.contains(file) { open[file, default: []].append(number) }
    }
    guard let lock = triedLock(locks, process: process, descriptors: open.mapValues(\.count)),
      let path = open[lock.file]?.first.flatMap({ ProcessMap.target(ofLink: "/proc/thread-self/fd/\($0)") })
    else { return nil }
    return StallNote(.fileLock, title: name(lock.process, process), text: path)
  }

  /// Returns the only lock that can prevent `process` from locking one of its open files; `nil` if there are several.
  /// Write locks of other processes take precedence.
  static func triedLock(_ locks: [Lock], process: Int32, descriptors: [Lock.File: Int]) -> Lock? {
    let held = locks.filter { $0.isOfFile && !$0.isWaiting && $0.process > 0 && descriptors[$0.file] != nil }
    let written = held.filter { $0.isForWriting && $0.process != process }
    let others = held.filter { $0.process != process || ($0.isForWriting && descriptors[$0.file] ?? 0 > 1) }
    let possible = written.isEmpty ? others : written
    guard let first = possible.first,
      possible.allSatisfy({ $0.file == first.file && $0.process == first.process })
    else { return nil }
    return first
  }

  /// Parses the content of `/proc/PID/fdinfo/N`.
  static func inode(_ text: String) -> UInt64? {
    let line = text.split(separator: "\n").first { $0.hasPrefix("ino:") }
    return line.flatMap { UInt64($0.dropFirst(4).drop { $0 == " " || $0 == "\t" }) }
  }

  /// Returns the process that owns the lock for which process `waiter` waits, on the file with `inode`; `nil` for an
  /// open file description lock (`F_OFD_SETLKW`). `text` is the content of `/proc/locks`.
  static func holder(in text: String, waiter: Int32, inode: UInt64) -> Int32? {
    var holder: Lock?
    for lock in text.split(separator: "\n").lazy.compactMap(Lock.init) {
      guard lock.isWaiting else {
        holder = lock
        continue
      }
      guard lock.process == waiter, lock.file.inode == inode, let holder, holder.number == lock.number,
        holder.process > 0
      else { continue }
      return holder.process
    }
    return nil
  }

  struct Lock {
    struct File: Hashable {
      /// The device, with its major number in the upper half.
      var device: UInt64
      var inode: UInt64
    }

    var number: Substring
    /// Whether the process waits for the lock of an earlier line.
    var isWaiting: Bool
    /// Whether flock or fcntl created the lock; `false` for a lease.
    var isOfFile: Bool
    var isForWriting: Bool
    /// The owning or waiting process; -1 for a lock of an open file description.
    var process: Int32
    var file: File

    /// Parses `12: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. Waiters have an arrow after the number.
    init?(_ line: Substring) {
      var fields = line.split(separator: " ", omittingEmptySubsequences: true)
      isWaiting = fields.count > 1 && fields[1] == "->"
      if isWaiting { fields.remove(at: 1) }
      guard fields.count >= 6, let process = Int32(fields[4]) else { return nil }
      let file = fields[5].split(separator: ":")
      guard file.count == 3, let major = UInt32(file[0], radix: 16), let minor = UInt32(file[1], radix: 16),
        let inode = UInt64(file[2])
      else { return nil }
      number = fields[0]
      isOfFile = fields[1] == "FLOCK" || fields[1] == "POSIX"
      isForWriting = fields[3] == "WRITE"
      self.process = process
      self.file = File(device: UInt64(major) << 32 | UInt64(minor), inode: inode)
    }
  }
}
