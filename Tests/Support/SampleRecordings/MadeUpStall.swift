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

extension Sample {
  /// A sample, captured if it has a stack, with defaults for the values that a test does not examine.
  package init(
    _ age: Duration,
    _ stack: Int?,
    _ activity: ThreadActivity = .unknown,
    used cpuTime: Duration? = nil,
    label: String = "",
    threadID: Int32? = nil,
    lock: HeldLock? = nil
  ) {
    self.init(
      age: age,
      stack: stack,
      outcome: stack == nil ? .noAnswer : .captured,
      cpuTime: cpuTime,
      activity: activity,
      label: label,
      threadID: threadID,
      lock: lock
    )
  }
}

extension ThreadSample {
  /// A captured thread.
  package init(_ id: Int32, _ name: String, _ stack: Int?, _ activity: ThreadActivity) {
    let thread = ObservedThread(id: id, name: name)
    self.init(thread: thread, stack: stack, outcome: .captured, cpuTime: nil, activity: activity)
  }
}

extension Module {
  /// A module with one mapping.
  package init(_ path: String, _ buildID: [UInt8] = [], at addresses: Range<UInt64>, fileOffset: UInt64 = 0) {
    let (start, end) = (RuntimeAddress(addresses.lowerBound), RuntimeAddress(addresses.upperBound))
    self.init(path: path, buildID: buildID, mappings: [Mapping(start: start, end: end, fileOffset: fileOffset)])
  }
}

extension ResolvedFrame {
  /// A frame at an address in a file, with defaults for the values that a test does not examine.
  package init(
    _ function: String?,
    raw: String? = nil,
    swiftModule: String? = nil,
    in module: String = "/opt/shop/shop",
    start: UInt64? = nil,
    at address: UInt64,
    _ location: SourceLocation? = nil,
    isInlined: Bool = false
  ) {
    self.init(
      function: function,
      rawName: raw,
      swiftModule: swiftModule,
      module: module,
      start: start.map { FileAddress($0) },
      address: .file(FileAddress(address)),
      location: location,
      isInlined: isInlined
    )
  }
}
