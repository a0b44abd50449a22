/// An object for which one thread waited while another held it, as read from memory.
package struct HeldLock: Hashable, Sendable {
  /// The kind of the object according to the system call and memory, by its number in files. Function names can be more
  /// precise.
  package struct Kind: Hashable, Sendable {
    package var code: UInt8

    package init(code: UInt8) { self.code = code }

    /// A word with the holder's thread ID: Swift's `Mutex`, `swift_once`.
    package static var word: Kind { Kind(code: 1) }
    package static var mutex: Kind { Kind(code: 2) }
    /// A `pthread_rwlock_t` locked for writing.
    package static var readWriteLock: Kind { Kind(code: 3) }
    /// The end of a thread.
    package static var thread: Kind { Kind(code: 4) }
    /// A dispatch queue whose work the holder ran.
    package static var queue: Kind { Kind(code: 5) }
    /// A stream of the C library, a `FILE`.
    package static var stream: Kind { Kind(code: 6) }
  }

  package var kind: Kind
  package var address: UInt64
  package var holderID: Int32
  package var waiterID: Int32
  package var isOrphaned: Bool
  package var isTimed: Bool

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

package struct HolderSample: Hashable, Sendable {
  package var address: UInt64
  package var thread: ObservedThread
  package var isHeld: Bool
  package var sample: Sample

  package init(address: UInt64, thread: ObservedThread, isHeld: Bool, sample: Sample) {
    self.address = address
    self.thread = thread
    self.isHeld = isHeld
    self.sample = sample
  }
}
