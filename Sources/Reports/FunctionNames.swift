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
      report[keyPath: path]?.function.rename(self)
    }
    for path in [\.parts, \.callers, \.outerCallers, \.callees, \.contenders]
      as [WritableKeyPath<StallReport, [StallReport.Finding]>]
    {
      for place in report[keyPath: path].indices { report[keyPath: path][place].function.rename(self) }
    }
    for place in report.workers.indices { report.workers[place].culprit?.function.rename(self) }
    for place in report.timeline.indices { report.timeline[place].culprit?.function.rename(self) }
    for chain in report.waitChains.indices {
      for link in report.waitChains[chain].links.indices {
        report.waitChains[chain].links[link].culprit?.function.rename(self)
        report.waitChains[chain].links[link].stack?.functions.rename(self)
      }
    }
    name(&report.tree)
    report.lastStack?.functions.rename(self)
    report.lastStackBlames?.rename(self)
    report.otherThreads?.rename(self)
  }

  private func name(_ nodes: inout [StallReport.Node]) {
    for place in nodes.indices {
      nodes[place].function.rename(self)
      name(&nodes[place].children)
    }
  }

  func function(_ frame: ResolvedFrame, _ rules: OwnershipRules) -> StallReport.Function {
    var function = StallReport.Function(FrameContent(frame), rules)
    function.rename(self)
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

extension StallReport.Function {
  fileprivate mutating func rename(_ names: FunctionNames) {
    guard let frame else { return }
    // Addresses in a library are useless to readers. In application code, the address is the only identification.
    let isNameless = frame.function == nil && !frame.module.isEmpty && !isOwn
    displayName = isNameless ? "a function of \(printable(frame.moduleName))" : names.name(frame)
  }
}

extension [StallReport.Function] {
  mutating func rename(_ names: FunctionNames) {
    for place in indices { self[place].rename(names) }
  }
}

extension ThreadsReport {
  mutating func rename(_ names: FunctionNames) {
    for place in groups.indices { groups[place].functions.rename(names) }
  }
}
