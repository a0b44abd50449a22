import CulpritStallRecord

/// Why work did not go on for a part of a stall.
package struct Cause: Hashable, Sendable {
  /// What kind of reason.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    // The order is that of causes with the same share: what can be acted upon comes first.
    /// Threads wait for each other, and nobody can go on.
    case deadlock
    /// Another thread held a lock.
    case lock
    /// Another thread initialised what is initialised once.
    case initialization
    /// Another thread had a lock of the loader's.
    case loader
    /// A thread had not ended.
    case threadEnd
    /// Nobody had signalled what is waited for and belongs to nobody: a semaphore, a condition, a group.
    case signal
    /// What a task awaited was not done.
    case awaiting
    /// A child process had not ended.
    case childProcess
    /// Another process, or the other end of a pipe, had not read or written.
    case interProcess
    /// A peer had not answered.
    case network
    /// Files were read, written or looked up.
    case file
    /// Memory had to be found or read in.
    case memory
    /// More work was waiting than could be done.
    case congestion
    /// It was ready to run, and had no processor.
    case noProcessor
    /// It freed what is no longer used.
    case deallocation
    /// It computed.
    case computing
    /// It slept on purpose.
    case sleep
    /// Nothing tells.
    case unknown
  }

  /// What it was about, as precisely as that is known.
  package enum Subject: Hashable, Sendable {
    /// What the code did that computed.
    case work(Work)
    /// What was waited for.
    case object(AwaitedObject)
    /// What a system call was on.
    case descriptor(Descriptor)
    /// A system call, by its number.
    case call(Int32)
    /// Not known: there are no samples of that time.
    case unobserved
    /// Not known: its samples have no stack.
    case noStack
    /// Not known: the kernel did not tell what the thread did, and its stack says nothing of it.
    case noState
  }

  /// A part of a cause.
  package struct Part: Hashable, Sendable {
    /// What it was about.
    package var subject: Subject
    /// Its part of the stall.
    package var share: Share
  }

  /// What kind of reason.
  package var kind: Kind
  /// Its part of the stall. The shares of all causes make up the stall.
  package var share: Share
  /// How many samples say so, in whole or in part.
  package var sampleCount: Int
  /// Whether the evidence is thin.
  package var isLikely: Bool
  /// What it was about, the heaviest first; the first few of them. Empty where that is not known.
  package var parts: [Part]
}

/// What a thread waits for, where that is no descriptor.
package enum AwaitedObject: String, Hashable, Sendable, CaseIterable {
  case mutex, readWriteLock, lock, queue, fileLock, stream, allocator, actor
  case semaphore, condition, future, atomic, group, iterations, barrier, event, events, kernelSignal, semaphoreSet
  case addressSpace, pageFault
  case freeThread
  case futex
}

/// What code does that computes.
package enum Work: Hashable, Sendable {
  /// A function of the application's does it itself, or by what the compiler has put into it.
  case ownCode
  /// A well-known kind of work.
  case kind(Kind)
  /// A package does it that the application depends on.
  case package(String)
  /// A function of a library's does it, by its name.
  case library(String)

  /// Kinds of work that many libraries do.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case allocation, deallocation, text, json, codable, regularExpressions, sorting, compression, cryptography,
      formatting
    case collections, copying, casting, exceptions, locking, yielding, loading, fileAccess, sockets, decimals,
      reflection, pageFaults
  }
}
