import CulpritStallRecord

struct MissingNames {
  let notes: [String]

  init(_ tree: [StallReport.Node], _ modules: [Module]) {
    var found: Set<String> = []
    var wanted: Set<String> = []
    func visit(_ node: StallReport.Node) {
      if let reason = node.function.frame?.missing {
        let module = node.function.module.isEmpty ? "no module" : printable(node.function.module)
        found.insert("no name in \(module): \(printable(reason.explanation))")
        if reason.isOfAnotherFile { wanted.insert(node.function.module) }
      }
      node.children.forEach(visit)
    }
    tree.forEach(visit)
    notes = found.sorted() + Self.help(modules.filter { wanted.contains($0.path) && !$0.buildID.isEmpty })
  }

  private static let modulesMax = 4

  private static func help(_ modules: [Module]) -> [String] {
    guard !modules.isEmpty else { return [] }
    let ids = modules.prefix(modulesMax).map { "\(printable($0.name)) \(hexadecimal($0.buildID))" }
    let rest = modules.count > modulesMax ? " and \(modules.count - modulesMax) more" : ""
    return [
      "for names: culprit report --debug-dir DIR, where DIR has the files that ran or their debug information, "
        + "or DEBUGINFOD_URLS; the build-ids: \(ids.joined(separator: ", "))\(rest)"
    ]
  }
}

extension MissingNameReason {
  fileprivate var isOfAnotherFile: Bool {
    switch self {
    case .unreadableFile, .changedFile, .unverifiable, .noSymbols: true
    case .notMapped, .noFile, .noSymbolHere: false
    }
  }
}
