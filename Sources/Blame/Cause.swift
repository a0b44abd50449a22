import CulpritStallRecord

enum CauseSubject: Hashable {
  case work(Work)
  case object(AwaitedObject)
  case descriptor(Descriptor)
  case call(Int32)
  case unobserved
  case noStack
  /// Unknown, because the kernel did not provide the thread's state and the stack is inconclusive.
  case noState

  func description(_ architecture: String) -> (code: String, text: String) {
    switch self {
    case .work(.ownCode): ("ownCode", "its own code")
    case .work(.kind(let kind)): (kind.rawValue, kind.text)
    case .work(.package(let name)): ("package", "the package \(printable(name))")
    case .work(.library(let name)): ("library", printable(name))
    case .object(let object): (object.rawValue, object.text)
    case .descriptor(let descriptor):
      ("descriptor", DescriptorText.of(descriptor).map { printable($0) } ?? "descriptor \(descriptor.number)")
    case .unobserved: ("unobserved", "no samples of that time")
    case .noStack: ("noStack", "no stack")
    case .noState: ("noState", "no state of the thread")
    case .call(let number): ("systemCall", SystemCallText.name(of: number, architecture: architecture))
    }
  }
}

package enum AwaitedObject: String, Hashable, Sendable, CaseIterable {
  case mutex, readWriteLock, lock, queue, fileLock, stream, allocator, actor
  case semaphore, condition, future, atomic, group, iterations, barrier, event, events, kernelSignal, semaphoreSet
  case addressSpace, pageFault
  case freeThread
  case futex

  package var text: String {
    switch self {
    case .mutex: "a mutex"
    case .readWriteLock: "a read-write lock"
    case .lock: "a lock"
    case .queue: "a dispatch queue"
    case .fileLock: "a file lock"
    case .stream: "a stdio stream lock"
    case .allocator: "an allocator lock"
    case .actor: "a busy actor"
    case .semaphore: "a semaphore"
    case .condition: "a condition"
    case .future: "a future"
    case .atomic: "an atomic value"
    case .group: "a dispatch group"
    case .iterations: "the other iterations of concurrentPerform"
    case .barrier: "a barrier"
    case .event: "an eventfd"
    case .events: "events"
    case .kernelSignal: "a kernel signal"
    case .semaphoreSet: "a System V semaphore"
    case .addressSpace: "the lock of the address space"
    case .pageFault: "a page fault"
    case .freeThread: "a free thread"
    case .futex: "futex"
    }
  }
}

package enum Work: Hashable, Sendable {
  case ownCode
  case kind(Kind)
  case package(String)
  case library(String)

  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case allocation, deallocation, text, json, codable, regularExpressions, sorting, compression, cryptography,
      formatting
    case collections, copying, casting, exceptions, locking, yielding, loading, fileAccess, sockets, decimals,
      reflection, pageFaults

    package var text: String {
      switch self {
      case .allocation: "allocating memory"
      case .deallocation: "freeing memory"
      case .text: "text operations"
      case .json: "JSON"
      case .codable: "encoding and decoding"
      case .regularExpressions: "regular expressions"
      case .sorting: "sorting"
      case .compression: "compression"
      case .cryptography: "cryptography"
      case .formatting: "formatting of dates and numbers"
      case .collections: "dictionaries and sets"
      case .copying: "copying memory"
      case .casting: "dynamic casts and lookups of types"
      case .exceptions: "throwing exceptions"
      case .locking: "taking and releasing locks"
      case .yielding: "yielding the CPU repeatedly"
      case .loading: "loading libraries"
      case .fileAccess: "files"
      case .sockets: "calls on sockets"
      case .decimals: "decimal numbers"
      case .reflection: "reflection and printing of values"
      case .pageFaults: "page faults on first use of memory"
      }
    }
  }
}
