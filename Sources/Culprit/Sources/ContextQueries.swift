import CCulpritLinux
import CulpritStallRecord
import Synchronization

extension Watchdog {
  /// Adds a text to the report of every stall: which tenant, how long queues are, what was configured.
  ///
  /// `describe` is called when a stall begins, on a thread of the watchdog's own, and has 200 ms: it may need a lock
  /// that the stuck thread holds. If it takes longer, the report says so, and it is not called again before it has
  /// returned.
  ///
  /// - Parameters:
  ///   - title: The text's title in the report.
  ///   - describe: Returns the text, in a line or two. Of one longer than 4,096 bytes the beginning is kept.
  /// - Returns: The registration, whose ``Registration/remove()`` removes it.
  @discardableResult
  public func addContext(_ title: String, _ describe: @escaping @Sendable () -> String) -> Registration {
    guard let contexts = activeCore?.contexts else { return Registration(nil) }
    let remove = contexts.add(title, describe)
    return keep(Registration(remove))
  }
}

/// What the application wants to add to reports.
final class ContextQueries: Sendable {
  private final class Query: Sendable {
    let title: String
    let describe: @Sendable () -> String
    let queue: HandlerQueue
    /// The number of the last question that was asked, and of the last that was answered.
    let asked = Mutex<UInt64>(0)
    let answer = Mutex<(number: UInt64, text: String)>((0, ""))

    init(_ title: String, _ workers: Workers, _ describe: @escaping @Sendable () -> String) {
      self.title = title
      queue = HandlerQueue(workers)
      self.describe = describe
    }
  }

  /// How long they may take, all together.
  private static let patience: UInt64 = 200_000_000

  /// So many bytes of a text are kept: a report of megabytes is read by nobody, and has to be written while work is stuck.
  static let textBytesMax = 4096

  /// Returns the beginning of `text` that is kept: whole characters.
  static func kept(_ text: String) -> String {
    let count = text.utf8.count
    guard count > textBytesMax else { return text }
    let limit = text.utf8.index(text.startIndex, offsetBy: textBytesMax)
    var end = text.startIndex
    while case let next = text.index(after: end), next <= limit { end = next }
    return "\(text[..<end])… (\(text.utf8[..<end].count) of \(count) bytes)"
  }

  private let workers: Workers
  private let queries = Mutex<[Query]>([])
  private let wake = WakeUp()

  /// Texts that `workers` ask for.
  init(_ workers: Workers) { self.workers = workers }

  /// Asks `describe` from now on. Returns what takes it away again.
  func add(_ title: String, _ describe: @escaping @Sendable () -> String) -> @Sendable () -> Void {
    let query = Query(title, workers, describe)
    workers.start()
    queries.withLock { $0.append(query) }
    // Whoever may take it away does not keep it.
    return { [weak self, weak query] in
      guard let query else { return }
      self?.queries.withLock { $0.removeAll { $0 === query } }
    }
  }

  /// Asks all of them, and waits for their answers for a while.
  func notes() -> [StallNote] {
    let all = queries.withLock { $0 }
    guard !all.isEmpty else { return [] }
    var open: [(query: Query, number: UInt64)] = []
    for query in all {
      let number: UInt64? = query.asked.withLock { asked in
        guard query.answer.withLock({ $0.number }) == asked else { return nil }
        asked += 1
        return asked
      }
      guard let number else { continue }
      open.append((query, number))
      query.queue.put { [self] in
        let described = query.describe()
        working {
          let text = Self.kept(described)
          query.answer.withLock { $0 = (number, text) }
          wake.notify()
        }
      }
    }
    let deadline = clinux_clock_ns() &+ Self.patience
    while true {
      let seen = wake.seen
      let isComplete = open.allSatisfy { entry in entry.query.answer.withLock { $0.number } == entry.number }
      if isComplete || clinux_clock_ns() >= deadline { break }
      wake.wait(after: seen, until: deadline)
    }
    return all.map { query in
      let number = open.first { $0.query === query }?.number
      let answer = query.answer.withLock { $0 }
      let text = answer.number == number ? answer.text : "(did not answer within 200 ms)"
      return StallNote(.context, title: query.title, text: text)
    }
  }

  /// Asks no more. One that does not return is left alone.
  func stop() {
    // Let go of outside of the lock: what only one of them holds may ask for it when it goes.
    let ended = queries.withLock { queries in
      defer { queries = [] }
      return queries
    }
    withExtendedLifetime(ended) {}
  }
}
