import CCulpritLinux
import CCulpritObserver
import Dispatch
import Glibc

/// Where libdispatch's queues keep the thread that drains them and what waits.
///
/// That is nowhere documented and differs from version to version. So it is found out with a queue of our own: what
/// changes when blocks are added to it, and what is this thread's id while it runs one. Where that finds nothing, or
/// more than one place, queues are watched without it: a stall is noticed, and who works on the queue is not known.
struct QueueLayout: Hashable, Sendable {
  /// Offsets from the queue's beginning, in bytes.
  private var owner: Int
  private var firstWaiting: Int
  private var lastWaiting: Int
  /// Where what waits has the next of it, from its own beginning; `nil` when that is not found out.
  private var next: Int?
  /// Where the queue has the one that is its target, from its own beginning; `nil` when that is not found out.
  private var target: Int?

  /// The layout in this process, found out when it is first asked for.
  static let current: QueueLayout? = {
    guard let layout = QueueLayout() else { return nil }
    var known = observer_queue_layout(
      last: Int32(layout.lastWaiting - layout.firstWaiting),
      next: UInt32(layout.next ?? 0),
      uncounted: layout.queueHeadAddress(of: .main)
    )
    observer_queue_know(&known)
    observer_lock_know_queues(UInt32(layout.owner), UInt32(layout.target ?? 0))
    return layout
  }()

  /// So much of a queue is looked at, in words of eight bytes: it has no more (a static assertion of libdispatch's). What
  /// lies behind it changes when it wants, and need not be there.
  private static let words = 16
  /// So much of what waits is looked at: a block's continuation has no more, and a task has.
  private static let waitingWords = 8

  /// What a queue of our own has in its words at some moments, and what it has waiting.
  private struct Looks {
    /// Nothing was added; one block, which waits; two; three.
    var idle, one, two, three: [UInt64]
    /// Of another queue: nothing was added; while this thread ran something of it.
    var beside: [UInt64] = []
    var running: [UInt64] = []
    var threadID: UInt32 = 0
    /// Of a third queue, whose target the other one is, and the address of that one.
    var targeting: [UInt64] = []
    var targetAddress: UInt64?
    /// What may wait, by its address.
    var waiting: [UInt64: [UInt64]] = [:]
  }

  /// That of a new queue; `nil` when it is not found out.
  init?() {
    guard let looks = Self.look() else { return nil }
    self.init(looks)
  }

  /// Looks at a new queue, and at another one that runs something on this thread. Returns `nil` when their words cannot be read.
  private static func look() -> Looks? {
    let queue = DispatchQueue(label: "culprit.layout")
    func now(_ queue: DispatchQueue) -> [UInt64] { content(object(of: queue), words: words) }
    let idle = now(queue)
    queue.suspend()
    queue.async {}
    let one = now(queue)
    queue.async {}
    let two = now(queue)
    queue.async {}
    var looks = Looks(idle: idle, one: one, two: two, three: now(queue))
    // What waits stays where it is as long as the queue is suspended.
    for word in two where word != 0 && !idle.contains(word) {
      looks.waiting[word] = content(word, words: waitingWords)
    }
    queue.resume()
    // On this thread: nobody waits for one of Dispatch's, which may all be taken.
    let another = DispatchQueue(label: "culprit.layout")
    looks.beside = now(another)
    looks.threadID = UInt32(bitPattern: clinux_task_self())
    looks.running = another.sync { now(another) }
    looks.targeting = now(DispatchQueue(label: "culprit.layout", target: another))
    looks.targetAddress = object(of: another)
    let all = [looks.idle, looks.one, looks.two, looks.three, looks.beside, looks.running]
    return all.allSatisfy { $0.count == words } ? looks : nil
  }

  /// What `looks` tell; `nil` when that is nothing, or more than one thing.
  private init?(_ looks: Looks) {
    let (idle, one, two) = (looks.idle, looks.one, looks.two)
    // The first that waits stays the same when a second one comes; the last does not.
    let firsts = (0..<Self.words).filter { idle[$0] == 0 && one[$0] != 0 && two[$0] == one[$0] }
    var ends: [(first: Int, last: Int)] = []
    for first in firsts {
      for last in 0..<Self.words where last != first && one[last] == one[first] && two[last] != two[first] {
        ends.append((first, last))
      }
    }
    let owners = (0..<Self.words).filter {
      UInt32(truncatingIfNeeded: looks.running[$0]) & Self.threadMask == looks.threadID
        && UInt32(truncatingIfNeeded: looks.beside[$0]) & Self.threadMask != looks.threadID
    }
    guard ends.count == 1, owners.count == 1 else { return nil }
    let (first, last) = ends[0]
    owner = owners[0] * 8
    firstWaiting = first * 8
    lastWaiting = last * 8
    let targets = looks.targeting.indices.filter { looks.targeting[$0] == looks.targetAddress }
    target = targets.count == 1 ? targets[0] * 8 : nil
    // The first has the second for its next, and the second the third.
    guard let block = looks.waiting[two[first]], let another = looks.waiting[two[last]] else { return }
    let nexts = block.indices.filter {
      block[$0] == two[last] && another.indices.contains($0) && another[$0] == looks.three[last]
    }
    next = nexts.count == 1 ? nexts[0] * 8 : nil
  }

  /// The lower bits of the word, where the id of a thread is.
  private static let threadMask: UInt32 = 0x3fff_ffff

  /// Where `queue` says who works on it.
  func ownerTIDAddress(of queue: DispatchQueue) -> UInt64 { Self.object(of: queue).map { $0 + UInt64(owner) } ?? 0 }

  /// Where `queue` has the first block that waits.
  func queueHeadAddress(of queue: DispatchQueue) -> UInt64 {
    Self.object(of: queue).map { $0 + UInt64(firstWaiting) } ?? 0
  }

  /// Where the queue that libdispatch has at `object` has the first that waits; `nil` where that cannot be read.
  func firstWaitingAddress(ofQueueAt object: UInt64) -> UInt64? {
    Self.content(object, words: Self.words).isEmpty ? nil : object + UInt64(firstWaiting)
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

  private static func content(_ object: UInt64?, words: Int) -> [UInt64] {
    var content = [UInt64](repeating: 0, count: words)
    guard let object, clinux_memory_read(object, &content, words * 8) else { return [] }
    return content
  }
}
