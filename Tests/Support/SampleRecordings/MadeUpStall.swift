import CulpritStallRecord

extension WallTime: ExpressibleByIntegerLiteral {
  package init(integerLiteral nanoseconds: UInt64) { self.init(nanosecondsSince1970: nanoseconds) }
}

extension Stall {
  /// A stall with defaults for the values that a test does not examine.
  package init(
    _ name: String,
    kind: SourceKind = .loop,
    id: UInt64 = 1,
    thread: (id: Int32, name: String) = (1, ""),
    threshold: Duration = .seconds(1),
    began: WallTime = 0,
    samples: [Sample] = [],
    duration: Duration = .zero,
    hasEnded: Bool = false,
    lostSamples: UInt64 = 0,
    gap: Duration = .zero,
    others: AllThreads? = nil,
    cost: ObservationCost = ObservationCost(),
    notes: [StallNote] = []
  ) {
    self.init(
      id: id,
      source: WatchedSource(kind: kind, name: name),
      thread: ObservedThread(id: thread.id, name: thread.name),
      threshold: threshold,
      began: began,
      samples: samples,
      duration: duration,
      hasEnded: hasEnded,
      lostSamples: lostSamples,
      gap: gap,
      others: others,
      cost: cost,
      notes: notes
    )
  }
}

extension ObservedProcess {
  /// A process with defaults for the values that a test does not examine.
  package init(
    _ id: Int32,
    _ executable: String,
    version: String = "0.1.0",
    since: WallTime = 0,
    ownModules: [String] = [],
    wrappers: [String] = [],
    host: String = ""
  ) {
    self.init(
      id: id,
      executable: executable,
      architecture: "x86_64",
      observerVersion: version,
      watchedSince: since,
      ownModules: ownModules,
      wrappers: wrappers,
      host: host
    )
  }
}
