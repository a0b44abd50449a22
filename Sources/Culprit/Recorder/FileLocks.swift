import CulpritBlame
import CulpritStallRecord

/// Who has the locks of files that this process waits for, as the kernel tells it (`/proc/locks`, proc(5)).
///
/// A lock of a file belongs to a process, or to an open file, and not to a thread.
struct FileLocks {
  /// When the kernel may be asked again: its list is that of the whole machine.
  private var next: UInt64 = 0

  private static let interval: UInt64 = 1_000_000_000
  /// The longest list that is looked through, of some 16,000 locks.
  private static let bytesMax = 1 << 20

  /// What is to be noted of who has the lock that `sample` found a thread of `process` waiting for, at `now` on the observer's clock.
  /// `nil` where it waits for none, where nobody is known, or where it was asked a moment ago.
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

  /// The inode in `text`, which the kernel has for a descriptor (`/proc/PID/fdinfo/N`); `nil` where it does not tell.
  static func inode(_ text: String) -> UInt64? {
    let line = text.split(separator: "\n").first { $0.hasPrefix("ino:") }
    return line.flatMap { UInt64($0.dropFirst(4).drop { $0 == " " || $0 == "\t" }) }
  }

  /// The process that has the lock of the file with `inode` that the process `waiter` waits for, by the kernel's list `text`. `nil`
  /// where it does not wait, or where the list names nobody: of a lock of an open file (`F_OFD_SETLKW`) it does not.
  static func holder(in text: String, waiter: Int32, inode: UInt64) -> Int32? {
    var holder: (number: Substring, process: Int32)?
    for line in text.split(separator: "\n") {
      // `12: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`, and below it who waits, with an arrow behind the number.
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
