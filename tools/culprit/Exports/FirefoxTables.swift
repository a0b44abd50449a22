import CulpritBlame
import CulpritStallRecord

struct FirefoxTables {
  private struct Node: Hashable {
    var frame: Int
    var prefix: Int?
  }

  private struct Function: Hashable {
    var name: Int
    var library: Int?
    var file: Int?
  }

  private struct Frame: Hashable {
    var function: Int
    var address: UInt64?
    var inlineDepth: Int
    var category: Int
    var line: Int?
    var column: Int?
  }

  private struct Library: Hashable {
    var path: String
    var buildID: [UInt8]
  }

  private var strings = Numbered<String>()
  private var files = Numbered<Int>()
  private var allLibraries = Numbered<Library>()
  private var libraryNames: [Int] = []
  private var functions = Numbered<Function>()
  private var frames = Numbered<Frame>()
  private var nodes = Numbered<Node>()
  /// The caches of the current recording.
  private var buildIDs: [String: [UInt8]] = [:]
  private var nodesOfStacks: [Int: Int?] = [:]

  mutating func begin(_ recording: ExportedRecording) {
    buildIDs = Dictionary(recording.modules.map { ($0.path, $0.buildID) }) { first, _ in first }
    nodesOfStacks = [:]
  }

  mutating func string(_ text: String) -> Int { strings.number(text) }

  mutating func stack(_ place: Int, _ recording: ExportedRecording) -> Int? {
    if let known = nodesOfStacks[place] { return known }
    var node: Int?
    var outer: ProfileStacks.Frame?
    var depth = 0
    for place in recording.stacks.stacks[place] {
      let frame = recording.stacks.frames[place]
      depth = frame.resolved.isInlined && frame.captured == outer?.captured ? depth + 1 : 0
      outer = frame
      node = nodes.number(Node(frame: number(of: place, frame, depth, recording), prefix: node))
    }
    nodesOfStacks[place] = .some(node)
    return node
  }

  private mutating func number(
    of place: Int,
    _ frame: ProfileStacks.Frame,
    _ depth: Int,
    _ recording: ExportedRecording
  ) -> Int {
    let resolved = frame.resolved
    let library = resolved.module.isEmpty ? nil : libraryNumber(resolved.module)
    let function = functions.number(
      Function(
        name: strings.number(recording.name(place)),
        library: library,
        file: resolved.location.map { files.number(strings.number(printable($0.file))) }
      )
    )
    var address: UInt64?
    if frame.captured != nil, case .file(let found) = resolved.address { address = found.value }
    return frames.number(
      Frame(
        function: function,
        address: address,
        inlineDepth: depth,
        category: frame.captured == nil ? 0 : frame.owner.category,
        line: resolved.location?.line,
        column: resolved.location.flatMap { $0.column > 0 ? $0.column : nil }
      )
    )
  }

  private mutating func libraryNumber(_ path: String) -> Int {
    let number = allLibraries.number(Library(path: path, buildID: buildIDs[path] ?? []))
    if number == libraryNames.count { libraryNames.append(strings.number(printable(path.lastComponent))) }
    return number
  }

  /// The categories for ``ProfileStacks/Frame/owner``. The first one is for all other frames.
  static var categories: [String] {
    [("Other", "grey"), ("Own code", "yellow"), ("Dependencies", "blue"), ("System", "orange")]
      .map { name, color in
        var category = JSONObject()
        category.add("name", name)
        category.add("color", color)
        category.add("subcategories", array: ["\"Other\""])
        return category.text
      }
  }

  func libraries(_ architecture: String) -> [String] {
    allLibraries.all.map { library in
      let path = printable(library.path)
      let name = printable(library.path.lastComponent)
      let buildID = hexadecimal(library.buildID)
      var object = JSONObject()
      object.add("arch", printable(architecture))
      object.add("name", name)
      object.add("path", path)
      object.add("debugName", name)
      object.add("debugPath", path)
      object.add("breakpadId", Self.breakpadID(library.buildID))
      object.add("codeId", json: library.buildID.isEmpty ? "null" : quotedJSON(buildID))
      return object.text
    }
  }

  /// Returns Breakpad's identifier: the first 16 bytes with an age. The first three groups are read as little-endian
  /// numbers.
  private static func breakpadID(_ buildID: [UInt8]) -> String {
    let bytes = Array((buildID + [UInt8](repeating: 0, count: 16)).prefix(16))
    let groups: [[UInt8]] = [
      bytes[..<4].reversed(), bytes[4..<6].reversed(), bytes[6..<8].reversed(), Array(bytes[8...]),
    ]
    return hexadecimal(Array(groups.joined())).uppercased() + "0"
  }

  func write(to sink: ByteSink) throws {
    func table(_ name: String, _ length: Int, _ columns: [(String, () throws -> Void)]) throws {
      try sink.write("\"\(name)\":{")
      for (column, write) in columns {
        try sink.write("\"\(column)\":")
        try write()
        try sink.write(",")
      }
      try sink.write("\"length\":\(length)}")
    }
    func text(_ number: Int?) -> String { number.map(String.init) ?? "null" }
    try sink.write("{")
    try table(
      "stackTable",
      nodes.all.count,
      [
        ("frame", { try sink.writeArray(nodes.all) { String($0.frame) } }),
        ("prefix", { try sink.writeArray(nodes.all) { text($0.prefix) } }),
      ]
    )
    try sink.write(",")
    let all = frames.all
    try table(
      "frameTable",
      all.count,
      [
        ("address", { try sink.writeArray(all) { $0.address.map { String($0) } ?? "-1" } }),
        ("inlineDepth", { try sink.writeArray(all) { String($0.inlineDepth) } }),
        ("category", { try sink.writeArray(all) { String($0.category) } }),
        ("subcategory", { try sink.writeArray(all) { _ in "0" } }),
        ("func", { try sink.writeArray(all) { String($0.function) } }),
        ("nativeSymbol", { try sink.writeArray(all) { _ in "null" } }),
        ("innerWindowID", { try sink.writeArray(all) { _ in "0" } }),
        ("line", { try sink.writeArray(all) { text($0.line) } }),
        ("column", { try sink.writeArray(all) { text($0.column) } }),
      ]
    )
    try sink.write(",")
    try table(
      "funcTable",
      functions.all.count,
      [
        ("name", { try sink.writeArray(functions.all) { String($0.name) } }),
        ("isJS", { try sink.writeArray(functions.all) { _ in "false" } }),
        ("relevantForJS", { try sink.writeArray(functions.all) { _ in "false" } }),
        // Resources are the libraries, in the order of the library table.
        ("resource", { try sink.writeArray(functions.all) { $0.library.map(String.init) ?? "-1" } }),
        ("source", { try sink.writeArray(functions.all) { text($0.file) } }),
        ("lineNumber", { try sink.writeArray(functions.all) { _ in "null" } }),
        ("columnNumber", { try sink.writeArray(functions.all) { _ in "null" } }),
      ]
    )
    try sink.write(",")
    let libraries = allLibraries.all.indices
    let typeOfLibrary = "1"
    try table(
      "resourceTable",
      libraries.count,
      [
        ("type", { try sink.writeArray(libraries) { _ in typeOfLibrary } }),
        ("lib", { try sink.writeArray(libraries) { String($0) } }),
        ("name", { try sink.writeArray(libraryNames) { String($0) } }),
        ("host", { try sink.writeArray(libraries) { _ in "null" } }),
      ]
    )
    try sink.write(",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0},")
    try table(
      "sources",
      files.all.count,
      [
        ("uuid", { try sink.writeArray(files.all) { _ in "null" } }),
        ("filename", { try sink.writeArray(files.all) { String($0) } }),
      ]
    )
    try sink.write(",\"stringArray\":")
    try sink.writeArray(strings.all, quotedJSON)
    try sink.write("}")
  }
}

extension CodeOwner {
  fileprivate var category: Int {
    switch self {
    case .own, .entry: 1
    case .dependency: 2
    case .system: 3
    }
  }
}
