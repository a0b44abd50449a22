/// An object that a thread waited for and another one held, as read from the object's words.
package struct HeldLock: Hashable, Sendable {
  /// The kind of the object according to the system call and the words. Function names can be more precise.
  package enum Kind: Hashable, Sendable {
    /// A word with the holder's thread ID: Swift's `Mutex`, `swift_once`.
    case word
    /// A `pthread_mutex_t`.
    case mutex
    /// A `pthread_rwlock_t` locked for writing.
    case readWriteLock
    /// The end of a thread.
    case thread
    /// A dispatch queue on which the holder ran work.
    case queue
    /// A stream of the C library, a `FILE`.
    case stream
    /// A kind written by a newer version, with its number in the file.
    case unknown(UInt8)
  }

  /// The kind of the object.
  package var kind: Kind
  /// The address of the object.
  package var address: UInt64
  /// The kernel's ID of the holding thread.
  package var holderID: Int32
  /// The kernel's ID of the waiting thread.
  package var waiterID: Int32
  /// Whether the holder had ended.
  package var isOrphaned: Bool
  /// Whether the wait had a timeout.
  package var isTimed: Bool

  /// Creates an object that the thread `holderID` held and the thread `waiterID` waited for.
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

  /// Creates the kind with the number `code` in files.
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

/// A sample of a thread that held an object for which another one waited.
package struct HolderSample: Hashable, Sendable {
  /// The address of the object (``HeldLock/address``).
  package var address: UInt64
  /// The thread.
  package var thread: ObservedThread
  /// Whether the thread still held the object after its stack had been captured.
  package var isHeld: Bool
  /// The sample.
  package var sample: Sample

  /// Creates a sample of `thread`, which held the object at `address`.
  package init(address: UInt64, thread: ObservedThread, isHeld: Bool, sample: Sample) {
    self.address = address
    self.thread = thread
    self.isHeld = isHeld
    self.sample = sample
  }
}
