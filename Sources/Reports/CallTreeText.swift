/// Formats a call tree with one line per function.
///
/// Shortens chains without branches: one line summarizes callers outside the application's code, and calls within a
/// library. A full tree contains all functions.
struct CallTreeText {
  /// Minimum share of a branch with its own line, in application code and its callees.
  private static let smallestBranch = 0.01
  /// Minimum share of a branch with its own line, within libraries.
  private static let smallestInside = 0.1
  private static let deepestInside = 2
  private static let ownRun = 8

  let style: StallReport.TextStyle
  private(set) var lines: [String] = []

  init(_ style: StallReport.TextStyle) { self.style = style }

  private var width: Int { style.width }
  private var deepestIndent: Int { width / 5 }
  private var barWidth: Int { width >= 100 ? 12 : width >= 60 ? 8 : 0 }

  /// Writes `nodes`, which must be root nodes or callees of an application function.
  mutating func write(_ nodes: [StallReport.Node]) { write(nodes, depth: 0, inside: 0, isRoot: true) }

  /// Writes `nodes`. `inside` is the number of branches since the last application code.
  private mutating func write(
    _ nodes: [StallReport.Node],
    depth: Int,
    inside: Int,
    isRoot: Bool = false
  ) {
    let smallest = style.isFull || inside == 0 ? Self.smallestBranch : Self.smallestInside
    let shown = nodes.filter { $0.share >= smallest }
    for node in shown {
      let chain = chain(from: node)
      for piece in pieces(chain, isRoot: isRoot && nodes.count == 1) {
        switch piece {
        case .node(let place): line(chain[place], depth, isBranch: place == 0)
        case .fold(let range):
          fold(chain[range], depth, isBranch: range.lowerBound == 0, leads: range.upperBound < chain.count)
        }
      }
      guard let last = chain.last, !last.children.isEmpty else { continue }
      let isInside = !chain.contains(where: \.function.isOwn) && !last.children.contains(where: \.hasOwnCode)
      let deeper = isInside ? inside + 1 : last.function.isOwn ? 0 : inside
      guard style.isFull || deeper <= Self.deepestInside else { continue }
      write(last.children, depth: depth + 1, inside: deeper)
    }
    let rest = nodes.filter { $0.share < smallest }
    guard !rest.isEmpty, inside == 0 || style.isFull else { return }
    let time = rest.reduce(Duration.zero) { $0 + $1.time }
    lines.append(
      figures(share: "", time: time, bar: 0) + indent(depth)
        + Emphasis.weak.on("-  \(rest.count) \(rest.count == 1 ? "branch" : "branches") below 1 %", style)
    )
  }

  /// Returns `node` and its descendants up to the next branch or self time.
  private func chain(from node: StallReport.Node) -> [StallReport.Node] {
    var chain = [node]
    while let last = chain.last, last.children.count == 1, last.selfTime == .zero { chain.append(last.children[0]) }
    return chain
  }

  private enum Piece {
    case node(Int)
    case fold(Range<Int>)
  }

  private func pieces(_ chain: [StallReport.Node], isRoot: Bool) -> [Piece] {
    guard !style.isFull else { return chain.indices.map(Piece.node) }
    var isKept = chain.indices.map { place in
      chain[place].function.isOwn || place == chain.count - 1 || (place == 0 && !isRoot)
        || (place > 0 && chain[place - 1].function.isOwn)
    }
    let own = chain.indices.filter { chain[$0].function.isOwn }
    if own.count > Self.ownRun { for place in own.dropFirst(2).dropLast(Self.ownRun / 2) { isKept[place] = false } }
    var pieces: [Piece] = []
    var place = 0
    while place < chain.count {
      let end = chain.indices[place...].first { isKept[$0] } ?? chain.count
      if end - place > 1 {
        pieces.append(.fold(place..<end))
      } else if end > place {
        pieces.append(.node(place))
      }
      if end < chain.count { pieces.append(.node(end)) }
      place = end + 1
    }
    return pieces
  }

  private mutating func line(_ node: StallReport.Node, _ depth: Int, isBranch: Bool) {
    let head = figures(share: Formatting.percent(node.share), time: node.time, bar: node.share)
    let margin = indent(depth) + (isBranch ? "- " : "  ") + (node.function.isOwn ? "*" : " ")
    let room = width - head.count - margin.count
    let times = node.repetitions > 1 ? " (×\(node.repetitions))" : ""
    let name = style.spelled(node.function.displayName + times)
    let origin = style.spelled(Formatting.origin(node.function))
    let both = origin.isEmpty ? name : "\(name)  \(origin)"
    let text = style.fitted(both.count <= room ? both : name, to: room)
    lines.append(head + margin + (node.function.isOwn ? Emphasis.own.on(text, style) : text))
  }

  private mutating func fold(_ nodes: ArraySlice<StallReport.Node>, _ depth: Int, isBranch: Bool, leads: Bool) {
    guard let first = nodes.first else { return }
    let head = figures(share: Formatting.percent(first.share), time: first.time, bar: first.share)
    let margin = indent(depth) + (isBranch ? "- " : "  ") + " "
    let text = Formatting.between(nodes.map(\.function), leads ? "caller" : "function")
    lines.append(head + margin + Emphasis.weak.on(style.fitted(text, to: width - head.count - margin.count), style))
  }

  private func figures(share: String, time: Duration, bar: Double) -> String {
    Formatting.right(share, 6) + " " + Formatting.right(Formatting.duration(time), 7) + " "
      + (barWidth > 0 ? Formatting.bar(bar, width: barWidth) + " " : "")
  }

  private func indent(_ depth: Int) -> String { String(repeating: " ", count: min(depth, deepestIndent)) }
}

extension StallReport.Node {
  fileprivate var hasOwnCode: Bool { function.isOwn || children.contains(where: \.hasOwnCode) }
}
