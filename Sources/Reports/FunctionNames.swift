import CulpritBlame
import CulpritStallRecord

/// Assigns unambiguous names to the functions of a report.
///
/// The only closure of a function in the report is "closure in load()", without its number in the function, because the
/// line number is more useful. Functions with equal names are distinguished by module, library, file, line, or
/// parameter types.
struct FunctionNames {
  private var names: [FunctionIdentity: String] = [:]

  init(_ frames: some Sequence<ResolvedFrame>) {
    var known: Set<FunctionIdentity> = []
    var functions: [(identity: FunctionIdentity, frame: ResolvedFrame)] = []
    for frame in frames where frame.function != nil {
      let identity = FunctionIdentity(frame)
      if known.insert(identity).inserted { functions.append((identity, frame)) }
    }
    for plain in Dictionary(grouping: functions, by: { Self.withoutNumbers($0.frame.shownName) }) {
      guard plain.value.count > 1 else {
        for function in plain.value { names[function.identity] = plain.key }
        continue
      }
      for alike in Dictionary(grouping: plain.value, by: \.frame.shownName) {
        guard alike.value.count > 1 else {
          for function in alike.value { names[function.identity] = alike.key }
          continue
        }
        let qualify = Self.qualification(of: alike.value.map(\.frame))
        for function in alike.value { names[function.identity] = qualify(function.frame) }
      }
    }
  }

  init(_ report: StallReport) {
    func functions(_ nodes: [StallReport.Node]) -> [StallReport.Function] {
      nodes.flatMap { [$0.function] + functions($0.children) }
    }
    let links = report.waitChains.flatMap(\.links)
    let findings =
      [report.culprit, report.dominant, report.spentIn].compactMap { $0 } + report.parts + report.callers
      + report.outerCallers + report.callees + report.contenders + links.compactMap(\.culprit)
      + report.timeline.compactMap(\.culprit)
    let stacks = (report.lastStack?.functions ?? []) + links.flatMap { $0.stack?.functions ?? [] }
    let others = report.otherThreads?.groups.flatMap(\.functions) ?? []
    self.init((functions(report.tree) + stacks + findings.map(\.function) + others).compactMap(\.frame))
  }

  func name(_ report: inout StallReport) {
    for path in [\.culprit, \.suspendedIn, \.spentIn, \.dominant]
      as [WritableKeyPath<StallReport, StallReport.Finding?>]
    {
      name(&report[keyPath: path])
    }
    for path in [\.parts, \.callers, \.outerCallers, \.callees, \.contenders]
      as [WritableKeyPath<StallReport, [StallReport.Finding]>]
    {
      for place in report[keyPath: path].indices { name(&report[keyPath: path][place].function) }
    }
    for place in report.workers.indices { name(&report.workers[place].culprit) }
    for place in report.timeline.indices { name(&report.timeline[place].culprit) }
    for chain in report.waitChains.indices {
      for link in report.waitChains[chain].links.indices {
        name(&report.waitChains[chain].links[link].culprit)
        name(&report.waitChains[chain].links[link].stack)
      }
    }
    name(&report.tree)
    name(&report.lastStack)
    if var function = report.lastStackBlames {
      name(&function)
      report.lastStackBlames = function
    }
    if var threads = report.otherThreads {
      name(&threads)
      report.otherThreads = threads
    }
  }

  func name(_ threads: inout ThreadsReport) {
    for place in threads.groups.indices { name(&threads.groups[place].functions) }
  }

  func name(_ functions: inout [StallReport.Function]) {
    for place in functions.indices { name(&functions[place]) }
  }

  private func name(_ nodes: inout [StallReport.Node]) {
    for place in nodes.indices {
      name(&nodes[place].function)
      name(&nodes[place].children)
    }
  }

  private func name(_ finding: inout StallReport.Finding?) {
    guard var named = finding else { return }
    name(&named.function)
    finding = named
  }

  private func name(_ stack: inout StallReport.Stack?) {
    guard var named = stack else { return }
    name(&named.functions)
    stack = named
  }

  private func name(_ function: inout StallReport.Function) {
    guard let frame = function.frame else { return }
    // Addresses in a library are useless to readers. In application code, the address is the only identification.
    let isNameless = frame.function == nil && !frame.module.isEmpty && !function.isOwn
    function.displayName = isNameless ? "a function of \(printable(frame.moduleName))" : name(frame)
  }

  func function(_ frame: ResolvedFrame, _ rules: OwnershipRules) -> StallReport.Function {
    var function = StallReport.Function(FrameContent(frame), rules)
    name(&function)
    return function
  }

  func name(_ frame: ResolvedFrame) -> String { printable(names[FunctionIdentity(frame)] ?? frame.shownName) }

  private static func qualification(of frames: [ResolvedFrame]) -> (ResolvedFrame) -> String {
    let ways: [(ResolvedFrame) -> String] = [
      { frame in frame.swiftModule.map { qualified(frame.shownName, by: $0) } ?? frame.shownName },
      { $0.shownName + ($0.moduleName.isEmpty ? "" : " (\($0.moduleName))") },
      { frame in frame.shownName + (frame.location.map { " (\(fileName($0)))" } ?? "") },
      { frame in frame.shownName + (frame.location.map { " (\(fileName($0)):\($0.line))" } ?? "") },
      { typed($0) }, { typed($0, withResult: true) },
      { frame in frame.swiftModule.map { qualified(typed(frame, withResult: true), by: $0) } ?? typed(frame) },
      { typed($0, withResult: true) + ($0.moduleName.isEmpty ? "" : " (\($0.moduleName))") },
    ]
    let best = ways.enumerated()
      .max { left, right in
        let (few, many) = (Set(frames.map(left.element)).count, Set(frames.map(right.element)).count)
        return few != many ? few < many : left.offset > right.offset
      }
    guard let best, Set(frames.map(best.element)).count > 1 else { return \.shownName }
    return best.element
  }

  private static func typed(_ frame: ResolvedFrame, withResult: Bool = false) -> String {
    ParameterTypes(frame)?.added(to: frame.shownName, withResult: withResult) ?? frame.shownName
  }

  private static func fileName(_ location: SourceLocation) -> Substring {
    location.file.split(separator: "/").last ?? location.file[...]
  }

  /// Adds the module to a name: "Store.load()" becomes "Orders.Store.load()", "closure #1 in Store.load()" becomes
  /// "closure #1 in Orders.Store.load()".
  private static func qualified(_ name: String, by module: String) -> String {
    var parts = FunctionName.split(name)
    let last = parts.removeLast()
    let joined = last.contains(" ") ? "\(last) (module \(module))" : "\(module).\(last)"
    return FunctionName.fitted((parts + [joined]).joined(separator: " in "))
  }

  private static func withoutNumbers(_ name: String) -> String {
    guard name.utf8.contains(UInt8(ascii: "#")) else { return name }
    return FunctionName.split(name)
      .map { part in
        for word in ["closure", "lambda"] where part.hasPrefix(word + " #") {
          if part.dropFirst(word.count + 2).allSatisfy(\.isNumber) { return word }
        }
        return part
      }
      .joined(separator: " in ")
  }
}

extension ResolvedFrame {
  fileprivate var shownName: String { visible(displayName) }
}
