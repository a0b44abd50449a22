/// All samples of a stall, thread by thread, with the data for profiles.
package struct SampleLog: Sendable {
  package struct Entry: BitwiseCopyable, Sendable {
    package var age: Duration
    private var stackNumber: Int32
    package var label: Int32
    package var activity: ThreadActivity
    package var outcome: CaptureOutcome

    package var stack: Int? { stackNumber < 0 ? nil : Int(stackNumber) }

    fileprivate init(_ sample: Sample, label: Int32) {
      age = sample.age
      stackNumber = sample.stack.flatMap { Int32(exactly: $0) } ?? -1
      self.label = label
      activity = sample.activity
      outcome = sample.outcome
    }
  }

  package struct Thread: Sendable {
    /// The kernel's thread ID if several threads work on the source.
    package let id: Int32?
    package fileprivate(set) var entries: LongList<Entry>
    fileprivate var isInOrder = true
  }

  /// The application's labels. The first one is empty.
  package private(set) var labels = [""]
  private var numbersOfLabels = ["": Int32(0)]
  private var all: [Thread] = []
  private var places: [Int32?: Int] = [:]
  private let store: (any OverflowStore)?

  /// Creates an empty log.
  ///
  /// - Parameter store: The storage for samples that do not fit into memory.
  package init(store: (any OverflowStore)? = nil) { self.store = store }

  package init(_ samples: [Sample]) {
    store = nil
    for sample in samples { append(sample) }
  }

  package var count: Int { all.reduce(0) { $0 + $1.entries.count } }

  package var namesThreads: Bool { all.contains { $0.id != nil } }

  package mutating func append(_ sample: Sample) {
    let place = places[sample.threadID] ?? all.count
    if place == all.count {
      places[sample.threadID] = place
      all.append(Thread(id: sample.threadID, entries: LongList(store: store)))
    }
    if let last = all[place].entries.last, last.age > sample.age { all[place].isInOrder = false }
    all[place].entries.append(Entry(sample, label: number(of: sample.label)))
  }

  private mutating func number(of label: String) -> Int32 {
    if label.isEmpty { return 0 }
    if let number = numbersOfLabels[label] { return number }
    let number = Int32(labels.count)
    labels.append(label)
    numbersOfLabels[label] = number
    return number
  }

  /// Returns the threads by ID, with samples that satisfy `isWanted`.
  package func threads(where isWanted: ((Entry) -> Bool)? = nil) -> [Thread] {
    all.ordered { ($0.id ?? 0) < ($1.id ?? 0) }
      .map { thread in
        guard isWanted != nil || !thread.isInOrder else { return thread }
        var chosen = Thread(id: thread.id, entries: LongList(store: store))
        if thread.isInOrder {
          for entry in thread.entries where isWanted?(entry) ?? true { chosen.entries.append(entry) }
        } else {
          // The observer writes samples in order. Only damaged files are out of order. Their samples must fit into
          // memory.
          let wanted = thread.entries.filter { isWanted?($0) ?? true }
          let sorted = wanted.enumerated().ordered { ($0.element.age, $0.offset) < ($1.element.age, $1.offset) }
          for (_, entry) in sorted { chosen.entries.append(entry) }
        }
        return chosen
      }
      .filter { !$0.entries.isEmpty }
  }
}
