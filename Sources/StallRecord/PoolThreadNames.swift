extension ObservedThread {
  /// The names of threads in libdispatch's pool, which also run Swift tasks. The kernel stores the last 15 characters
  /// of a global queue's label.
  private static let poolNames = Set(
    ["maintenance", "background", "utility", "default", "user-initiated", "user-interactive"]
      .flatMap { ["com.apple.root.\($0)-qos", "com.apple.root.\($0)-qos.overcommit"] }
      .map { String($0.suffix(15)) }
  )

  fileprivate var isOfPool: Bool { Self.poolNames.contains(name) }
}

extension Stall {
  /// The stall with readable names for threads of libdispatch's pool, such as `pool thread 1` for `oot.default-qos`.
  ///
  /// The stalled thread has the number of its source, or 1. Other pool threads are numbered by thread ID.
  package var namingPoolThreads: Stall {
    var ids = Set((others?.threads ?? []).lazy.map(\.thread).filter(\.isOfPool).map(\.id))
    for holder in holders where holder.thread.isOfPool { ids.insert(holder.thread.id) }
    guard thread.isOfPool || !ids.isEmpty else { return self }
    let own = source.kind == .job ? source.name : "pool thread 1"
    var names: [Int32: String] = thread.isOfPool ? [thread.id: own] : [:]
    var free = (1...).lazy.map { "pool thread \($0)" }.filter { !thread.isOfPool || $0 != own }.makeIterator()
    for id in ids.sorted() where names[id] == nil { names[id] = free.next() }
    var named = self
    named.thread.name = names[thread.id] ?? thread.name
    for place in holders.indices {
      named.holders[place].thread.name = names[holders[place].thread.id] ?? holders[place].thread.name
    }
    named.others = others?.naming(names)
    return named
  }
}

extension AllThreads {
  package var namingPoolThreads: AllThreads {
    let ids = threads.map(\.thread).filter(\.isOfPool).map(\.id).sorted()
    return naming(Dictionary(zip(ids, (1...).lazy.map { "pool thread \($0)" })) { first, _ in first })
  }

  fileprivate func naming(_ names: [Int32: String]) -> AllThreads {
    var named = self
    for place in threads.indices {
      named.threads[place].thread.name = names[threads[place].thread.id] ?? threads[place].thread.name
    }
    return named
  }
}
