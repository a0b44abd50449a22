/// Every sample of a stall, thread by thread: as much of each as profiles need, and no more of them in memory than a piece.
package struct SampleLog: Sendable {
  /// What is kept of a sample.
  package struct Entry: BitwiseCopyable, Sendable {
    /// How old the work item was.
    package var age: Duration
    /// The stack, as an index into ``Recording/stacks``; -1 where there is none.
    private var stackNumber: Int32
    /// What the application had said of the work, as a place in ``SampleLog/labels``.
    package var label: Int32
    /// What the thread was doing.
    package var activity: ThreadActivity
    /// How the capture went.
    package var outcome: CaptureOutcome

    /// The stack, as an index into ``Recording/stacks``.
    package var stack: Int? { stackNumber < 0 ? nil : Int(stackNumber) }

    fileprivate init(_ sample: Sample, label: Int32) {
      age = sample.age
      stackNumber = sample.stack.flatMap { Int32(exactly: $0) } ?? -1
      self.label = label
      activity = sample.activity
      outcome = sample.outcome
    }
  }

  /// The samples of one thread.
  package struct Thread: Sendable {
    /// The kernel's id, where several threads work on what is watched.
    package let id: Int32?
    /// The samples, in order of time.
    package fileprivate(set) var entries: LongList<Entry>
    fileprivate var isInOrder = true
  }

  /// What the application had said; the first is that it had said nothing.
  package private(set) var labels = [""]
  private var numbersOfLabels = ["": Int32(0)]
  private var all: [Thread] = []
  private var places: [Int32?: Int] = [:]
  private let store: (any OverflowStore)?

  /// No samples.
  ///
  /// - Parameter store: Where those go that are too many to be kept in memory.
  package init(store: (any OverflowStore)? = nil) { self.store = store }

  /// The samples of a stall that are all there.
  package init(_ samples: [Sample]) {
    store = nil
    for sample in samples { append(sample) }
  }

  /// How many samples there are.
  package var count: Int { all.reduce(0) { $0 + $1.entries.count } }

  /// Whether they are of several threads, or of others than the stall's.
  package var namesThreads: Bool { all.contains { $0.id != nil } }

  /// Adds `sample`.
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

  /// The threads, by their ids, with those of their samples that `isWanted`; those without one are left out.
  package func threads(where isWanted: ((Entry) -> Bool)? = nil) -> [Thread] {
    all.sorted { ($0.id ?? 0) < ($1.id ?? 0) }
      .map { thread in
        guard isWanted != nil || !thread.isInOrder else { return thread }
        var chosen = Thread(id: thread.id, entries: LongList(store: store))
        if thread.isInOrder {
          for entry in thread.entries where isWanted?(entry) ?? true { chosen.entries.append(entry) }
        } else {
          // The observer writes them in order: only damaged files have others, which have to fit into memory.
          let wanted = thread.entries.filter { isWanted?($0) ?? true }
          let sorted = wanted.enumerated().sorted { ($0.element.age, $0.offset) < ($1.element.age, $1.offset) }
          for (_, entry) in sorted { chosen.entries.append(entry) }
        }
        return chosen
      }
      .filter { !$0.entries.isEmpty }
  }
}
