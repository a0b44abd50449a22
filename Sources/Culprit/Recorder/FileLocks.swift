import CulpritBlame
import CulpritStallRecord

/// The owners of file locks that block this process, read from `/proc/locks` (proc(5)).
///
/// A file lock belongs to a process or to an open file description, never to a thread.
struct FileLocks {
  /// Earliest time of the next read: `/proc/locks` lists the locks of the whole machine.
  private var next: UInt64 = 0

  private static let interval: UInt64 = 1_000_000_000
  /// Longest part of `/proc/locks` that is read: about 16,000 locks.
  private static let bytesMax = 1 << 20

  /// Returns a note with the owner of the file lock that the sampled thread waits for.
  ///
  /// - Parameters:
  ///   - sample: A sample of one of the threads of `process`.
  ///   - process: This process.
  ///   - now: The time by the observer's clock, in nanoseconds.
  /// - Returns: The note. `nil` if the thread waits for no file lock, the owner is unknown, or the last read is less
  ///   than a second old.
  mutating func note(_ sample: Sample, _ process: ObservedProcess, now: UInt64) -> StallNote? {
    guard case .inSystemCall(let call) = sample.activity, let descriptor = sample.descriptor, descriptor.number >= 0,
      let name = SystemCalls.name(of: call, architecture: process.architecture), name == "flock" || name == "fcntl",
      now >= next
    else { return nil }
    next = now &+ Self.interval
    guard let inode = Self.inode(ProcessMap.readAll("/proc/thread-self/fdinfo/\(descriptor.number)") ?? ""),
      let holder = Self.holder(
        in: ProcessMap.readAll("/proc/locks", atMost: Self.bytesMax) ?? "",
        waiter: process.id,
        inode: inode
      )
    else { return nil }
    return StallNote(.fileLock, title: Self.name(holder, process.id), text: descriptor.target)
  }

  private static func name(_ holder: Int32, _ process: Int32) -> String {
    guard holder != process else { return "this process, through another descriptor" }
    let name = (ProcessMap.readAll("/proc/\(holder)/comm") ?? "").prefix { $0 != "\n" }
    return "process \(holder)\(name.isEmpty ? "" : " (\(name))")"
  }

  /// Returns the inode in `text`, the content of `/proc/PID/fdinfo/N`; `nil` if the kernel does not report one.
  static func inode(_ text: String) -> UInt64? {
    let line = text.split(separator: "\n").first { $0.hasPrefix("ino:") }
    return line.flatMap { UInt64($0.dropFirst(4).drop { $0 == " " || $0 == "\t" }) }
  }

  /// Returns the process that owns the lock for which process `waiter` waits, on the file with `inode`.
  ///
  /// - Parameters:
  ///   - text: The content of `/proc/locks`.
  ///   - waiter: The id of the waiting process.
  ///   - inode: The inode of the file.
  /// - Returns: The owner. `nil` if `waiter` does not wait, or for an open file description lock (`F_OFD_SETLKW`),
  ///   which has no owning process.
  static func holder(in text: String, waiter: Int32, inode: UInt64) -> Int32? {
    var holder: (number: Substring, process: Int32)?
    for line in text.split(separator: "\n") {
      // `12: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. Waiters follow, with an arrow after the number.
      var fields = line.split(separator: " ", omittingEmptySubsequences: true)
      let waits = fields.count > 1 && fields[1] == "->"
      if waits { fields.remove(at: 1) }
      guard fields.count >= 6, let process = Int32(fields[4]) else { continue }
      guard waits else {
        holder = (fields[0], process)
        continue
      }
      guard process == waiter, UInt64(fields[5].split(separator: ":").last ?? "") == inode, let holder,
        holder.number == fields[0], holder.process > 0
      else { continue }
      return holder.process
    }
    return nil
  }
}
