import CulpritStallRecord

/// A reason why work did not continue for a part of a stall.
package struct Cause: Hashable, Sendable {
  /// The kind of a cause.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    // Causes with equal shares are sorted in this order: causes that can be fixed come first.
    /// Threads wait for each other and cannot continue.
    case deadlock
    /// Another thread held a lock.
    case lock
    /// Another thread ran a one-time initialization.
    case initialization
    /// Another thread held a lock of the dynamic loader.
    case loader
    /// The work waited for a thread to end.
    case threadEnd
    /// The work waited for a signal from an object without an owner: a semaphore, a condition, a group.
    case signal
    /// An awaited operation was not done.
    case awaiting
    /// A child process had not ended.
    case childProcess
    /// Another process, or the other end of a pipe, had not read or written.
    case interProcess
    /// A peer had not answered.
    case network
    /// Files were read, written or looked up.
    case file
    /// Memory was reclaimed or read in.
    case memory
    /// More work was waiting than could be done.
    case congestion
    /// The thread was ready to run without a CPU.
    case noCPU
    /// The thread deallocated objects.
    case deallocation
    /// The thread computed.
    case computing
    /// The thread slept on purpose.
    case sleep
    /// The cause is unknown.
    case unknown
  }

  /// The subject of a cause, as precisely as it is known.
  package enum Subject: Hashable, Sendable {
    /// The kind of computation.
    case work(Work)
    /// The awaited object.
    case object(AwaitedObject)
    /// The descriptor of a system call.
    case descriptor(Descriptor)
    /// A system call, by its number.
    case call(Int32)
    /// Unknown because there are no samples of the time.
    case unobserved
    /// Unknown because the samples have no stack.
    case noStack
    /// Unknown because the kernel did not provide the thread's state and the stack is inconclusive.
    case noState
  }

  /// A part of a cause.
  package struct Part: Hashable, Sendable {
    /// The subject of the part.
    package var subject: Subject
    /// The part's share of the stall.
    package var share: Share
  }

  /// The kind of the cause.
  package var kind: Kind
  /// The cause's share of the stall. The shares of all causes add up to the stall.
  package var share: Share
  /// The number of samples that support the cause, at least in part.
  package var sampleCount: Int
  /// Whether the evidence is weak.
  package var isLikely: Bool
  /// The parts, heaviest first, limited in number. Empty if unknown.
  package var parts: [Part]
}

/// An object that a thread waits for, other than a descriptor.
package enum AwaitedObject: String, Hashable, Sendable, CaseIterable {
  case mutex, readWriteLock, lock, queue, fileLock, stream, allocator, actor
  case semaphore, condition, future, atomic, group, iterations, barrier, event, events, kernelSignal, semaphoreSet
  case addressSpace, pageFault
  case freeThread
  case futex
}

/// A kind of computation.
package enum Work: Hashable, Sendable {
  /// Code of an application function, including code that the compiler inserted.
  case ownCode
  /// A common kind of work.
  case kind(Kind)
  /// Code of the package with this name.
  case package(String)
  /// Code of the library function with this name.
  case library(String)

  /// Kinds of work that many libraries do.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case allocation, deallocation, text, json, codable, regularExpressions, sorting, compression, cryptography,
      formatting
    case collections, copying, casting, exceptions, locking, yielding, loading, fileAccess, sockets, decimals,
      reflection, pageFaults
  }
}
