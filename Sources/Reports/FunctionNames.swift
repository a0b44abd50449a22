import CulpritBlame
import CulpritStallRecord

/// Assigns unambiguous names to the functions of a report.
///
/// A closure is "closure in load()" if it is the only one of its function in the report. Its number, which counts the
/// closures of a function, is otherwise omitted because the line number is more useful. Functions with equal names are
/// distinguished by module, library, file, line, or parameter types.
struct FunctionNames {
  private var names: [FunctionIdentity: String] = [:]

  /// Creates names for the functions of `frames`.
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

  /// Creates names for the functions of a report.
  init(_ blame: Blame, _ others: [ThreadGroup]) {
    func frames(_ nodes: [CallNode]) -> [ResolvedFrame] { nodes.flatMap { [$0.frame] + frames($0.children) } }
    let claims =
      [blame.culprit, blame.dominant, blame.dependency].compactMap { $0 } + blame.parts + blame.callers
      + blame.farCallers + blame.doing + blame.contenders
      + blame.waitChains.flatMap(\.links).compactMap(\.culprit) + blame.timeline.compactMap(\.claim)
    let held = blame.waitChains.flatMap(\.links).flatMap(\.stack)
    self.init(frames(blame.tree) + blame.lastStack + held + claims.map(\.frame) + others.flatMap(\.frames))
  }

  /// Returns the name of `frame`.
  func name(_ frame: ResolvedFrame) -> String { printable(names[FunctionIdentity(frame)] ?? frame.shownName) }

  /// Returns the first qualification that distinguishes frames with equal names.
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

  /// Returns the name of `frame` with parameter types, if they are known.
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

  /// Removes closure numbers: "closure #2 in load()" becomes "closure in load()".
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
  /// The name to print. An invisible name is replaced by words.
  fileprivate var shownName: String { visible(displayName) }
}
