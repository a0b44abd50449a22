import CCulpritLinux
import CulpritStallRecord

extension Watchdog {
  /// Adds text to the report of every stall, for example the tenant or queue lengths.
  ///
  /// `describe` is called on a thread of the watchdog when a stall begins. The limit of a call is 200 ms, because
  /// `describe` might need a lock of the stalled thread. The report notes a call over this limit, and `describe` is not
  /// called again before it returns.
  ///
  /// - Parameters:
  ///   - title: The title of the text in the report.
  ///   - describe: Returns the text, one or two lines. Text longer than 4,096 bytes is truncated.
  /// - Returns: A registration. ``Registration/remove()`` stops the calls.
  @discardableResult
  public func addContext(_ title: String, _ describe: @escaping @Sendable () -> String) -> Registration {
    guard let contexts = activeEngine?.contexts else { return Registration(nil) }
    let remove = contexts.add(title, describe)
    return keep(Registration(remove))
  }
}

final class ContextQueries: Sendable {
  private final class Query: Sendable {
    let title: String
    let describe: @Sendable () -> String
    let queue: HandlerQueue
    /// The number of the last query.
    let asked = Mutex<UInt64>(0)
    /// The last answer, and the number of its query.
    let answer = Mutex<(number: UInt64, text: String)>((0, ""))

    init(_ title: String, _ workers: Workers, _ describe: @escaping @Sendable () -> String) {
      self.title = title
      queue = HandlerQueue(workers)
      self.describe = describe
    }
  }

  /// Longest wait for all answers together, in nanoseconds.
  private static let patience: UInt64 = 200_000_000

  /// Limit of a text, which is written while the work is stalled.
  static let textBytesMax = 4096

  /// Truncates `text` between characters.
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

  init(_ workers: Workers) { self.workers = workers }

  /// Returns a function that removes the query.
  func add(_ title: String, _ describe: @escaping @Sendable () -> String) -> @Sendable () -> Void {
    let query = Query(title, workers, describe)
    workers.start()
    queries.withLock { $0.append(query) }
    // The removal function must not keep the query alive.
    return { [weak self, weak query] in
      guard let query else { return }
      self?.queries.withLock { $0.removeAll { $0 === query } }
    }
  }

  /// Waits up to ``patience`` for answers.
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
        blockingFork {
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

  /// Does not wait for running queries.
  func stop() {
    // Released outside the lock: an object held only by a query might call back here in its `deinit`.
    withExtendedLifetime(queries.exchange([])) {}
  }
}
