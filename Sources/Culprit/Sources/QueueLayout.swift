import CCulpritLinux
import CCulpritObserver
import Dispatch
import Glibc

/// Offsets of the draining thread and of the waiting blocks in libdispatch's queues.
///
/// Test queues reveal the undocumented layout: the words that change when blocks are added, and the word that holds the
/// id of the thread in a block. Without a unique result, the thread that works on a queue is unknown.
struct QueueLayout: Hashable, Sendable {
  /// In bytes from the beginning of the queue.
  private var owner: Int
  private var firstWaiting: Int
  private var lastWaiting: Int
  /// Offset of the link to the next block in a waiting block.
  private var next: Int?
  private var target: Int?

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

  /// Size of a queue in words, as asserted by libdispatch. Memory behind a queue can change at any time or be unmapped.
  private static let words = 16
  /// The size of a block's continuation. Tasks are larger.
  private static let waitingWords = 8

  private struct Contents {
    /// Without a block, with one waiting block, with two, and with three.
    var idle, one, two, three: [UInt64]
    /// A second queue: idle, and while this thread runs one of its blocks.
    var beside: [UInt64] = []
    var running: [UInt64] = []
    var threadID: UInt32 = 0
    /// A third queue, which targets the second queue at `targetAddress`.
    var targeting: [UInt64] = []
    var targetAddress: UInt64?
    /// Possible waiting blocks by address.
    var waiting: [UInt64: [UInt64]] = [:]
  }

  init?() {
    guard let contents = Self.observe() else { return nil }
    self.init(contents)
  }

  /// Returns `nil` if the queues' memory cannot be read.
  private static func observe() -> Contents? {
    let queue = DispatchQueue(label: "culprit.layout")
    func now(_ queue: DispatchQueue) -> [UInt64] { content(object(of: queue), words: words) }
    let idle = now(queue)
    queue.suspend()
    queue.async {}
    let one = now(queue)
    queue.async {}
    let two = now(queue)
    queue.async {}
    var contents = Contents(idle: idle, one: one, two: two, three: now(queue))
    // Waiting blocks stay in place while the queue is suspended.
    for word in two where word != 0 && !idle.contains(word) {
      contents.waiting[word] = content(word, words: waitingWords)
    }
    queue.resume()
    // The block runs on this thread: all of Dispatch's threads might be busy.
    let another = DispatchQueue(label: "culprit.layout")
    contents.beside = now(another)
    contents.threadID = UInt32(bitPattern: clinux_task_self())
    contents.running = another.sync { now(another) }
    contents.targeting = now(DispatchQueue(label: "culprit.layout", target: another))
    contents.targetAddress = object(of: another)
    let all = [contents.idle, contents.one, contents.two, contents.three, contents.beside, contents.running]
    return all.allSatisfy { $0.count == words } ? contents : nil
  }

  private init?(_ contents: Contents) {
    let (idle, one, two) = (contents.idle, contents.one, contents.two)
    // A second block changes the word for the last waiting block, but not the word for the first.
    let firsts = (0..<Self.words).filter { idle[$0] == 0 && one[$0] != 0 && two[$0] == one[$0] }
    var ends: [(first: Int, last: Int)] = []
    for first in firsts {
      for last in 0..<Self.words where last != first && one[last] == one[first] && two[last] != two[first] {
        ends.append((first, last))
      }
    }
    let owners = (0..<Self.words).filter {
      UInt32(truncatingIfNeeded: contents.running[$0]) & Self.threadMask == contents.threadID
        && UInt32(truncatingIfNeeded: contents.beside[$0]) & Self.threadMask != contents.threadID
    }
    guard ends.count == 1, owners.count == 1 else { return nil }
    let (first, last) = ends[0]
    owner = owners[0] * 8
    firstWaiting = first * 8
    lastWaiting = last * 8
    let targets = contents.targeting.indices.filter { contents.targeting[$0] == contents.targetAddress }
    target = targets.count == 1 ? targets[0] * 8 : nil
    // The first block links to the second one, and the second to the third.
    guard let block = contents.waiting[two[first]], let another = contents.waiting[two[last]] else { return }
    let nexts = block.indices.filter {
      block[$0] == two[last] && another.indices.contains($0) && another[$0] == contents.three[last]
    }
    next = nexts.count == 1 ? nexts[0] * 8 : nil
  }

  private static let threadMask: UInt32 = 0x3fff_ffff

  /// Returns the address of the draining thread's id; 0 if the queue cannot be read.
  func ownerTIDAddress(of queue: DispatchQueue) -> UInt64 { Self.object(of: queue).map { $0 + UInt64(owner) } ?? 0 }

  /// Returns the address of the pointer to the first waiting block; 0 if the queue cannot be read.
  func queueHeadAddress(of queue: DispatchQueue) -> UInt64 {
    Self.object(of: queue).map { $0 + UInt64(firstWaiting) } ?? 0
  }

  /// Like ``queueHeadAddress(of:)``, for the libdispatch queue at `object`.
  func firstWaitingAddress(ofQueueAt object: UInt64) -> UInt64? {
    Self.content(object, words: Self.words).isEmpty ? nil : object + UInt64(firstWaiting)
  }

  /// Returns whether `queue`, of which the caller runs a block, stores the thread's id. False for concurrent queues.
  func isDrainedByCaller(_ queue: DispatchQueue) -> Bool {
    observer_slot_owner(ownerTIDAddress(of: queue)) == clinux_task_self()
  }

  /// The Swift object stores the libdispatch object after its two-word header.
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
