import CulpritBlame
import CulpritExports
import CulpritReports
import CulpritStallRecord

/// The data of a page's graphics: the stacks as a tree, and the samples of each thread.
///
/// Encoded as the length of a JSON header (four bytes, little-endian), the header, and columns of LEB128 numbers.
/// Contiguous columns compress well. `profile.js` decodes them.
struct PageProfile {
  private var functions: [[String: String]] = []
  private var numbersOfFunctions: [Int: Int] = [:]
  private var files = Numbered<String>()
  private var states = Numbered<String>()
  private var kindsOfStates: [String] = []
  private var labels = Numbered<String>()
  private var frames: [(function: Int, file: Int, line: Int, flags: Int)] = []
  private var numbersOfFrames: [Int: Int] = [:]
  private var nodes: [(parent: Int, frame: Int)] = []
  private var numbersOfNodes: [UInt64: Int] = [:]
  private var ends: [Int: Int] = [:]

  private let report: StallReport
  private let profile: StallProfile
  private let stacks: ProfileStacks
  private let function: (ResolvedFrame) -> StallReport.Function
  private let activity: (ThreadActivity) -> StallReport.Activity

  /// `log` contains all samples; `nil` if `stall` contains them.
  init(
    _ stall: Stall,
    _ report: StallReport,
    _ stacks: ProfileStacks,
    _ builder: ReportBuilder,
    log: SampleLog? = nil,
    store: (any OverflowStore)? = nil
  ) {
    self.report = report
    self.stacks = stacks
    profile = StallProfile(stall, stacks, log: log, store: store)
    function = builder.functions(of: report)
    activity = builder.activity
  }

  /// The duration in nanoseconds.
  var duration: UInt64 { profile.duration }

  mutating func write(to out: ([UInt8]) throws -> Void) throws {
    for track in profile.tracks {
      for segment in track.segments {
        _ = node(segment.stack)
        _ = state(segment)
        _ = label(segment)
      }
    }
    let others = profile.stall.others.map { stacks.threads(of: $0) } ?? []
    var names: [String] = []
    var otherColumns: [UInt8] = []
    for (thread, stack) in others {
      names.append(name(of: thread.thread))
      otherColumns.append(leb128: node(stack))
      otherColumns.append(leb128: state(thread.activity))
    }
    var tree: [UInt8] = []
    for frame in frames { tree.append(leb128: frame.function) }
    for frame in frames { tree.append(leb128: frame.file) }
    for frame in frames { tree.append(leb128: frame.line) }
    for frame in frames { tree.append(leb128: frame.flags) }
    for (number, node) in nodes.enumerated() { tree.append(leb128: number - node.parent) }
    for node in nodes { tree.append(leb128: node.frame) }
    let header = Array(header(others: names).text.utf8)
    try out((0..<4).map { UInt8(truncatingIfNeeded: header.count >> ($0 * 8)) } + header)
    try out(tree)
    for track in profile.tracks { try write(track, to: out) }
    try out(otherColumns)
  }

  private func header(others: [String]) -> JSONObject {
    var header = JSONObject()
    header.add("durationNs", profile.duration)
    header.add("thresholdNs", report.threshold.wholeNanoseconds)
    if let hang = report.hang { header.add("hangNs", hang.wholeNanoseconds) }
    header.add("culprit", report.culprit.map { printable($0.function.displayName) })
    header.add("phases", phases)
    for key in ["name", "module", "owner"] { header.add(key + "s", functions.map { $0[key] ?? "" }) }
    header.add("files", files.all)
    header.add("states", states.all)
    header.add("stateKinds", kindsOfStates)
    header.add("labels", labels.all)
    header.add("frameCount", frames.count)
    header.add("nodeCount", nodes.count)
    header.add("threads", profile.tracks.map { name(of: $0.thread) })
    header.add("sampleCounts", array: profile.tracks.map { String($0.segments.count) })
    header.add("otherThreads", others)
    return header
  }

  private var phases: [JSONObject] {
    report.timeline.map { stretch in
      var phase = JSONObject()
      phase.add("beginNs", stretch.begin.wholeNanoseconds)
      phase.add("endNs", stretch.end.wholeNanoseconds)
      phase.add("name", printable(stretch.culprit?.function.displayName ?? "no application code"))
      phase.add("isCulprit", stretch.culprit != nil && stretch.culprit?.function == report.culprit?.function)
      return phase
    }
  }

  private func name(of thread: ObservedThread) -> String {
    guard thread.id != 0 else { return "no single thread" }
    return "thread \(thread.id)" + (thread.name.isEmpty ? "" : " \"\(printable(thread.name))\"")
  }

  /// Writes each value relative to the previous one, which gives small numbers. Iterating once per column takes less
  /// memory than storing columns.
  private mutating func write(_ track: StallProfile.Track, to out: ([UInt8]) throws -> Void) throws {
    func column(_ append: (inout [UInt8], StallProfile.Segment) -> Void) throws {
      try track.segments.forEachPiece { segments in
        var bytes: [UInt8] = []
        for segment in segments { append(&bytes, segment) }
        try out(bytes)
      }
    }
    var position: UInt64 = 0
    try column { bytes, segment in
      bytes.append(signed: Int64(bitPattern: segment.begin &- position))
      position = segment.end
    }
    try column { $0.append(leb128: Int($1.end - $1.begin)) }
    try column { $0.append(signed: Int64(bitPattern: ($1.end - $1.begin) &- $1.weight)) }
    try column { $0.append(leb128: node($1.stack)) }
    try column { $0.append(leb128: state($1)) }
    try column { $0.append(leb128: label($1)) }
  }

  private mutating func state(_ segment: StallProfile.Segment) -> Int {
    segment.sample.map { state($0.activity) } ?? unobserved()
  }

  /// Returns the label's number, from 1; 0 without a label.
  private mutating func label(_ segment: StallProfile.Segment) -> Int {
    let label = segment.sample.map { profile.labels[Int($0.label)] } ?? ""
    return label.isEmpty ? 0 : labels.number(printable(label)) + 1
  }

  private mutating func unobserved() -> Int { state("not observed", "unobserved") }

  private mutating func state(_ activity: ThreadActivity) -> Int {
    let activity = self.activity(activity)
    return state(printable(activity.text), activity.kind.rawValue)
  }

  private mutating func state(_ text: String, _ kind: String) -> Int {
    let number = states.number(text)
    if number == kindsOfStates.count { kindsOfStates.append(kind) }
    return number
  }

  /// Returns the number of the stack's last node, from 1; 0 for an empty stack.
  private mutating func node(_ place: Int) -> Int {
    if let end = ends[place] { return end }
    var parent = -1
    for frame in stacks.stacks[place] {
      let number = number(ofFrame: frame)
      let key = UInt64(parent + 1) << 32 | UInt64(number)
      if let known = numbersOfNodes[key] {
        parent = known
        continue
      }
      nodes.append((parent, number))
      numbersOfNodes[key] = nodes.count - 1
      parent = nodes.count - 1
    }
    ends[place] = parent + 1
    return parent + 1
  }

  private mutating func number(ofFrame place: Int) -> Int {
    if let number = numbersOfFrames[place] { return number }
    let frame = stacks.frames[place]
    let resolved = function(frame.resolved)
    let location = resolved.location
    let file = location.map { files.number(printable($0.file)) + 1 } ?? 0
    frames.append(
      (
        number(ofFunction: frame, resolved), file, max(0, location?.line ?? 0),
        (resolved.isInlined ? 1 : 0) | (resolved.isAwaiting ? 2 : 0)
      )
    )
    numbersOfFrames[place] = frames.count - 1
    return frames.count - 1
  }

  private mutating func number(ofFunction frame: ProfileStacks.Frame, _ resolved: StallReport.Function) -> Int {
    if let number = numbersOfFunctions[frame.function] { return number }
    let owner =
      switch frame.owner {
      // Placeholders for missing data have no owner.
      case _ where frame.captured == nil: "nobody"
      case .own: "own"
      case .entry: "entry"
      case .dependency: "dependency"
      case .system: "system"
      }
    functions.append([
      "name": visible(printable(resolved.displayName)),
      "module": printable(resolved.package ?? resolved.moduleName), "owner": owner,
    ])
    numbersOfFunctions[frame.function] = functions.count - 1
    return functions.count - 1
  }
}

extension [UInt8] {
  fileprivate mutating func append(leb128 number: some BinaryInteger) {
    var rest = UInt64(number)
    while rest >= 0x80 {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    append(UInt8(rest))
  }

  /// Appends `number` in zigzag encoding, which is short for small numbers of either sign.
  fileprivate mutating func append(signed number: Int64) {
    append(leb128: UInt64(bitPattern: number << 1 ^ number >> 63))
  }
}
