import CCulpritLinux
import CCulpritObserver
import Dispatch
import Glibc
import Synchronization

/// Where libdispatch's queues keep the thread that drains them and the first block that waits.
///
/// That is nowhere documented and differs from version to version. So it is found out with a queue of our own: what
/// changes when blocks are added to it, and what is this thread's id while it runs one. Where that finds nothing, or
/// more than one place, queues are watched without it: a stall is noticed, and who works on the queue is not known.
struct QueueLayout: Hashable, Sendable {
  /// Offsets from the queue's beginning, in bytes.
  private var owner: Int
  private var firstWaiting: Int

  /// The layout in this process, found out when it is first asked for.
  static let current: QueueLayout? = QueueLayout()

  /// So much of a queue is looked at, in words of eight bytes: it has no more (a static assertion of libdispatch's). What
  /// lies behind it changes when it wants, and need not be there.
  private static let words = 16

  /// That of a new queue; `nil` when it is not found out.
  init?() {
    let queue = DispatchQueue(label: "culprit.layout")
    let idle = Self.content(of: queue)
    queue.suspend()
    queue.async {}
    let one = Self.content(of: queue)
    let measured = Mutex<(id: UInt32, content: [UInt64])>((0, []))
    queue.async {
      let running = (id: UInt32(bitPattern: clinux_task_self()), content: Self.content(of: queue))
      measured.withLock { $0 = running }
    }
    let two = Self.content(of: queue)
    queue.resume()
    queue.sync {}
    let running = measured.withLock { $0 }
    guard [idle, one, two, running.content].allSatisfy({ $0.count == Self.words }) else { return nil }
    // The first that waits stays the same when a second one comes; the last does not.
    let first = (0..<Self.words).filter { idle[$0] == 0 && one[$0] != 0 && two[$0] == one[$0] && one.contains(one[$0]) }
      .filter { place in one.indices.contains { $0 != place && one[$0] == one[place] && two[$0] != two[place] } }
    let owners = (0..<Self.words).filter {
      UInt32(truncatingIfNeeded: running.content[$0]) & Self.threadMask == running.id
        && UInt32(truncatingIfNeeded: idle[$0]) & Self.threadMask != running.id
    }
    guard first.count == 1, owners.count == 1 else { return nil }
    owner = owners[0] * 8
    firstWaiting = first[0] * 8
  }

  /// The lower bits of the word, where the id of a thread is.
  private static let threadMask: UInt32 = 0x3fff_ffff

  /// Where `queue` says who works on it.
  func ownerTIDAddress(of queue: DispatchQueue) -> UInt64 { Self.object(of: queue).map { $0 + UInt64(owner) } ?? 0 }

  /// Where `queue` has the first block that waits.
  func queueHeadAddress(of queue: DispatchQueue) -> UInt64 {
    Self.object(of: queue).map { $0 + UInt64(firstWaiting) } ?? 0
  }

  /// Whether `queue` says that the calling thread, which is running one of its blocks, works on it: not so for a queue
  /// whose blocks run at the same time.
  func isDrainedByCaller(_ queue: DispatchQueue) -> Bool {
    observer_slot_owner(ownerTIDAddress(of: queue)) == clinux_task_self()
  }

  /// The address of libdispatch's object, which Swift's refers to after its own header of two words.
  private static func object(of queue: DispatchQueue) -> UInt64? {
    let wrapper = UInt64(UInt(bitPattern: Unmanaged.passUnretained(queue).toOpaque()))
    var object: UInt64 = 0
    return clinux_memory_read(wrapper + 16, &object, 8) && object != 0 ? object : nil
  }

  private static func content(of queue: DispatchQueue) -> [UInt64] {
    var content = [UInt64](repeating: 0, count: words)
    guard let object = object(of: queue), clinux_memory_read(object, &content, words * 8) else { return [] }
    return content
  }
}
