/// An object that a thread waited for and another one held, as read from the object's words.
package struct HeldLock: Hashable, Sendable {
  /// The kind of the object according to the system call and the words, by its number in files. Function names can be
  /// more precise.
  package struct Kind: Hashable, Sendable {
    package var code: UInt8

    package init(code: UInt8) { self.code = code }

    /// A word with the holder's thread ID: Swift's `Mutex`, `swift_once`.
    package static var word: Kind { Kind(code: 1) }
    /// A `pthread_mutex_t`.
    package static var mutex: Kind { Kind(code: 2) }
    /// A `pthread_rwlock_t` locked for writing.
    package static var readWriteLock: Kind { Kind(code: 3) }
    /// The end of a thread.
    package static var thread: Kind { Kind(code: 4) }
    /// A dispatch queue on which the holder ran work.
    package static var queue: Kind { Kind(code: 5) }
    /// A stream of the C library, a `FILE`.
    package static var stream: Kind { Kind(code: 6) }
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
