import Culprit

/// The known facts about a scenario, as `causes-process list` prints them. Absent values are omitted.
package struct CauseTruth: Encodable, Sendable {
  package enum Language: String, Encodable, Sendable { case swift, c, cpp }

  /// Primary causes of stalls.
  package enum Cause: String, Encodable, Sendable {
    case computing, deallocation, lock, deadlock, signal, threadEnd, initialization, loader, file, network, interProcess
    case childProcess, sleep, noCPU, memory, suspension, congestion, awaiting
  }

  /// Kinds of computation.
  package enum Work: String, Encodable, Sendable {
    case ownCode, allocation, text, json, codable, regularExpressions, sorting, compression, collections
  }

  package var name: String
  package var language: Language
  package var cause: Cause
  package var also: [Cause]?
  package var culprit: String?
  package var holder: String?
  /// A function that is reported in addition to the culprit and ran at the end of the stall.
  package var contender: String?
  /// Texts that the report must contain.
  package var texts: [String]?
  package var deadlock: Bool?
  package var work: Work?
  package var needs: String?
  package var nearMiss: Bool?
  package var mixed: Bool?
  package var loadSensitive: Bool?

  package init(
    name: String,
    language: Language = .swift,
    cause: Cause,
    also: [Cause]? = nil,
    culprit: String?,
    holder: String? = nil,
    contender: String? = nil,
    texts: [String]? = nil,
    deadlock: Bool? = nil,
    work: Work? = nil,
    needs: String? = nil,
    nearMiss: Bool? = nil,
    mixed: Bool? = nil,
    loadSensitive: Bool? = nil
  ) {
    (self.name, self.language, self.cause, self.also, self.culprit) = (name, language, cause, also, culprit)
    (self.holder, self.contender, self.texts) = (holder, contender, texts)
    (self.deadlock, self.work, self.needs) = (deadlock, work, needs)
    (self.nearMiss, self.mixed, self.loadSensitive) = (nearMiss, mixed, loadSensitive)
  }
}

/// Times measured by the stalled thread itself.
package struct CauseMeasures: Codable, Sendable {
  package var wallSeconds: Double?
  package var cpuSeconds: Double?
  /// Time in which the thread was runnable without a CPU.
  package var delaySeconds: Double?

  package init(wallSeconds: Double? = nil, cpuSeconds: Double? = nil, delaySeconds: Double? = nil) {
    (self.wallSeconds, self.cpuSeconds, self.delaySeconds) = (wallSeconds, cpuSeconds, delaySeconds)
  }
}

/// Compares reports with the truth of their scenarios, and counts.
package struct CauseJudgement {
  package private(set) var played = 0
  package private(set) var right = 0
  package private(set) var culpritRight = 0
  package private(set) var holders = 0
  package private(set) var holdersRight = 0
  package private(set) var falseDeadlocks = 0
  package private(set) var wrongSums = 0
  /// Reports that contradict themselves, or lack the culprit's line or activity, or a text or contender of the
  /// scenario.
  package private(set) var unsound = 0
  package private(set) var unavailable = 0

  /// A kernel tick, in seconds.
  private static let tick = 0.01

  /// Longest CPU time of a thread that had not begun its work.
  private static let hardlyRun = 0.02

  package init() {}

  /// Counts a scenario that this machine cannot play.
  package mutating func skip() { unavailable += 1 }

  /// Counts a scenario without a report.
  package mutating func fail() { played += 1 }

  /// Counts a report. Returns its faults in words; `nil` if there is none.
  package mutating func judge(_ truth: CauseTruth, _ measured: CauseMeasures, _ report: StallReport) -> String? {
    played += 1
    var faults: [String] = []
    let allowed = Self.allowed(truth, measured)
    let cause = report.causes.first?.kind.rawValue ?? "none"
    if allowed.contains(cause) {
      right += 1
    } else {
      faults.append("reported as \(cause) instead of \(allowed.sorted().joined(separator: " or "))")
    }
    let culprit = report.culprit?.function.name
    if culprit == truth.culprit || (report.verdict == .noStacks && Self.neverRan(measured)) {
      culpritRight += 1
    } else {
      faults.append("blames \(culprit ?? "none") instead of \(truth.culprit ?? "none")")
    }
    if let holder = truth.holder {
      holders += 1
      let chain = report.waitChains.first
      let names = chain?.links.map { $0.culprit?.function.name } ?? []
      let found = names.last ?? nil
      // A deadlock has no last link: reports begin its chain at the lowest address.
      if found == holder || (chain?.isDeadlock == true && names.contains(holder)) {
        holdersRight += 1
      } else {
        faults.append("held by \(found ?? "none") instead of \(holder)")
      }
    }
    let claims = cause == "deadlock" || report.waitChains.contains(where: \.isDeadlock)
    if claims, truth.cause != .deadlock {
      falseDeadlocks += 1
      faults.append("reported as a deadlock")
    }
    let sum = report.causes.reduce(Duration.zero) { $0 + $1.time }
    if abs((sum - report.duration) / .seconds(1)) > Self.tick {
      wrongSums += 1
      faults.append("causes of \(sum) in \(report.duration)")
    }
    let unsoundness = Self.unsoundness(report) + Self.missing(truth, report)
    if !unsoundness.isEmpty {
      unsound += 1
      faults += unsoundness
    }
    guard !faults.isEmpty else { return nil }
    let causes = report.causes.map { cause in
      let subjects = cause.subjects.map(\.text).joined(separator: ", ")
      return "\(cause.kind.rawValue) \(Int((cause.share * 100).rounded())) %\(subjects.isEmpty ? "" : " (\(subjects))")"
    }
    return "\(faults.joined(separator: "; ")): \(causes.joined(separator: ", "))"
  }

  /// A cause or function with this share has nearly all of a stall.
  private static let nearlyAll = 0.8

  /// Texts and functions of the scenario that the report lacks.
  private static func missing(_ truth: CauseTruth, _ report: StallReport) -> [String] {
    let text = report.text(width: 1000)
    var faults = (truth.texts ?? []).filter { !text.contains($0) }.map { "without \"\($0)\"" }
    if let contender = truth.contender {
      let found = report.contenders.first?.function.name
      if found != contender { faults.append("beside \(found ?? "none") instead of \(contender)") }
      let last = report.timeline.last?.culprit?.function.name
      if last != contender { faults.append("\(last ?? "none") last instead of \(contender)") }
    }
    return faults
  }

  /// Whether the report describes the activity of its culprit.
  private static func describesActivity(_ report: StallReport) -> Bool {
    let paragraph = report.text(width: 1000).split(separator: "\n", omittingEmptySubsequences: false)
      .drop { !$0.hasPrefix("CULPRIT") }.prefix { !$0.isEmpty }
    return paragraph.contains { line in
      ["computing", "waiting", "blocked", "its task", "on CPU"].contains { line.drop { $0 == " " }.hasPrefix($0) }
    }
  }

  /// Missing parts of the culprit, and contradictions between culprit and primary cause.
  private static func unsoundness(_ report: StallReport) -> [String] {
    guard let culprit = report.culprit else { return [] }
    var faults: [String] = []
    if culprit.function.location == nil { faults.append("culprit without a line") }
    if !describesActivity(report) { faults.append("culprit without an activity") }
    guard let cause = report.causes.first, cause.share >= nearlyAll, culprit.share >= nearlyAll,
      let use = culprit.cpuUse
    else { return faults }
    let waits: Set<StallReport.Cause.Kind> = [
      .lock, .initialization, .loader, .threadEnd, .signal, .awaiting, .childProcess, .interProcess, .sleep,
    ]
    let isComputing = cause.kind == .computing || cause.kind == .deallocation
    let isIdle = use.share + (use.runnableShare ?? 0) < nearlyAll / 2
    let contradicts = isComputing ? isIdle : waits.contains(cause.kind) && use.share > nearlyAll
    if contradicts {
      faults.append("\(cause.kind.rawValue), but the culprit used a CPU for \(Int((use.share * 100).rounded())) %")
    }
    return faults
  }

  /// The correct primary causes. For a load-sensitive thread that lacked a CPU for most of the stall, this is `noCPU`.
  /// At about half of the stall both causes are correct.
  private static func allowed(_ truth: CauseTruth, _ measured: CauseMeasures) -> Set<String> {
    guard truth.loadSensitive == true, let wall = measured.wallSeconds, let delay = measured.delaySeconds, wall > 0
    else {
      return [truth.cause.rawValue]
    }
    let part = delay / wall
    if part > 0.55 { return ["noCPU"] }
    return part > 0.3 ? [truth.cause.rawValue, "noCPU"] : [truth.cause.rawValue]
  }

  /// Whether the thread was runnable for most of the stall but got no CPU. Then no sample shows its work.
  private static func neverRan(_ measured: CauseMeasures) -> Bool {
    guard let wall = measured.wallSeconds, let used = measured.cpuSeconds, let delay = measured.delaySeconds else {
      return false
    }
    return used < hardlyRun && delay > wall / 2
  }

  /// The counts as lines of `name=value`.
  package var facts: String {
    """
    programs=\(played)
    right=\(right)
    culprit_right=\(culpritRight)
    holders=\(holders)
    holders_right=\(holdersRight)
    false_deadlocks=\(falseDeadlocks)
    wrong_sums=\(wrongSums)
    unsound=\(unsound)
    unavailable=\(unavailable)
    """
  }
}
