import CulpritStallRecord

extension StallReport {
  /// A chain of lock waits, from the stalled work to the thread at its root.
  public struct WaitChain: Hashable, Sendable, Codable {
    /// The links, starting with the object for which the work waited; never empty.
    public var links: [WaitLink]
    /// The share of the stall, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    /// The number of samples with this chain.
    public var sampleCount: Int
    /// Whether the last link leads back to a thread of the chain.
    public var isCycle: Bool
    /// Whether the cycle is permanent. No wait has a timeout, and each thread was found in the cycle twice, without CPU
    /// use in between or with a wait that the kernel refused.
    public var isDeadlock: Bool

    /// The time of the stall with this chain.
    public var time: Duration { seconds.duration }
  }

  /// A thread that held an object for which another thread waited.
  public struct WaitLink: Hashable, Sendable, Codable {
    /// The kind of the object.
    public var kind: Kind
    /// The address of the object in the process.
    public var address: UInt64
    /// The holding thread.
    public var holder: Thread
    /// Whether the thread had ended. No thread could then release the object.
    public var hasHolderEnded: Bool
    /// Whether the holder was observed only once, or no function name confirms the wait.
    public var isLikely: Bool
    /// The culprit function of the holding thread, with its share of the thread's sampled time; `nil` if no single
    /// function is to blame or the thread was not sampled.
    public var culprit: Finding?
    /// The last sampled stack of the thread.
    public var stack: Stack?

    /// Kinds of held objects.
    public struct Kind: ReportCode {
      /// The string in JSON.
      public var rawValue: String
      /// Creates a value, known or unknown.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// A lock whose word contains the holder's thread ID: Swift's `Mutex`, the initialization of a global
      /// (`swift_once`).
      public static let lock = Kind(rawValue: "lock")
      /// A `pthread_mutex_t`: an `NSLock`, a `std::mutex`.
      public static let mutex = Kind(rawValue: "mutex")
      /// A `pthread_rwlock_t`, locked for writing.
      public static let readWriteLock = Kind(rawValue: "readWriteLock")
      /// No object: the work waited for the thread's end (`pthread_join`).
      public static let threadEnd = Kind(rawValue: "threadEnd")
      /// A dispatch queue on which the thread ran work (`sync`).
      public static let queue = Kind(rawValue: "queue")
      /// A stream of the C library, a `FILE`, as `print` and `printf` use.
      public static let stream = Kind(rawValue: "stream")
      /// A one-time initialization that the thread ran: `std::call_once`, a static variable of a C++ function.
      public static let initialization = Kind(rawValue: "initialization")
    }
  }
}

extension StallReport.WaitLink.Kind {
  init(_ kind: HeldLock.Kind) {
    switch kind {
    case .word: self = .lock
    case .mutex: self = .mutex
    case .readWriteLock: self = .readWriteLock
    case .thread: self = .threadEnd
    case .queue: self = .queue
    case .stream: self = .stream
    default: self.init(rawValue: "unknown-\(kind.code)")
    }
  }
}
