/// What a blocked thread waited for that another one held, as the words of the lock had it.
package struct HeldLock: Hashable, Sendable {
  /// What kind of thing it was, by the system call and the words: names may know better.
  package enum Kind: Hashable, Sendable {
    /// A word with the id of who holds it: a `Mutex` of Swift's, `swift_once`.
    case word
    /// A `pthread_mutex_t`.
    case mutex
    /// A `pthread_rwlock_t` that somebody wrote under.
    case readWriteLock
    /// The end of a thread.
    case thread
    /// A dispatch queue, of which somebody ran something.
    case queue
    /// A stream of the C library's, a `FILE`.
    case stream
    /// A kind that a newer version wrote, by its number in the file.
    case unknown(UInt8)
  }

  /// What kind of thing it was.
  package var kind: Kind
  /// Where it was.
  package var address: UInt64
  /// The kernel's id of the thread that held it.
  package var holderID: Int32
  /// The kernel's id of the thread that waited.
  package var waiterID: Int32
  /// Whether the holder had ended.
  package var isOrphaned: Bool
  /// Whether the wait would have ended by itself.
  package var isTimed: Bool

  /// What the thread `holderID` held, and the thread `waiterID` waited for.
  package init(
    kind: Kind,
    address: UInt64,
    holderID: Int32,
    waiterID: Int32,
    isOrphaned: Bool = false,
    isTimed: Bool = false
  ) {
    self.kind = kind
    self.address = address
    self.holderID = holderID
    self.waiterID = waiterID
    self.isOrphaned = isOrphaned
    self.isTimed = isTimed
  }
}

extension HeldLock.Kind {
  /// The kind's number in files.
  package var code: UInt8 {
    switch self {
    case .word: 1
    case .mutex: 2
    case .readWriteLock: 3
    case .thread: 4
    case .queue: 5
    case .stream: 6
    case .unknown(let code): code
    }
  }

  /// The kind with the number `code` in files.
  package init(code: UInt8) {
    switch code {
    case 1: self = .word
    case 2: self = .mutex
    case 3: self = .readWriteLock
    case 4: self = .thread
    case 5: self = .queue
    case 6: self = .stream
    default: self = .unknown(code)
    }
  }
}

/// A look at a thread that held what another one waited for.
package struct HolderSample: Hashable, Sendable {
  /// Where that was: ``HeldLock/address``.
  package var address: UInt64
  /// The thread.
  package var thread: ObservedThread
  /// Whether it still held it when its stack had been taken.
  package var isHeld: Bool
  /// What was seen of it.
  package var sample: Sample

  /// A look at `thread`, which held what is at `address`.
  package init(address: UInt64, thread: ObservedThread, isHeld: Bool, sample: Sample) {
    self.address = address
    self.thread = thread
    self.isHeld = isHeld
    self.sample = sample
  }
}
