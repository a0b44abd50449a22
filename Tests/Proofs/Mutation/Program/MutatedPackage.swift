import Foundation

/// A copy of the package with faults in its sources, each with a switch.
struct MutatedPackage {
  let root: String
  let copy: String
  /// The file with the switch, shared by the copy's processes.
  var switchPath: String { copy + ".switch" }

  /// The files in the work tree that git does not ignore.
  private func files() throws -> [String] {
    let (status, output) = try run(["git", "ls-files", "-z", "-co", "--exclude-standard"], in: root)
    guard status == 0 else {
      throw MutationError("git cannot list the files of \(root), which must be in a repository")
    }
    return output.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      .filter { FileManager.default.fileExists(atPath: "\(root)/\($0)") }
  }

  /// The sources of targets that are built on this platform. Tests cannot notice faults in other sources.
  private func builtSources() throws -> Set<String> {
    struct Description: Decodable {
      struct Target: Decodable {
        var path: String
        var sources: [String]
      }
      var targets: [Target]
    }
    // A separate scratch path, because SwiftPM would wait for other builds of the package.
    let describe = ["swift", "package", "--scratch-path", copy + ".describe", "describe", "--type", "json"]
    let (status, output) = try run(describe, in: root)
    guard status == 0 else {
      let text = String(decoding: try run(describe, in: root, withErrors: true).output, as: UTF8.self)
      throw MutationError("SwiftPM cannot describe \(root):\n\(text)")
    }
    let targets = try JSONDecoder().decode(Description.self, from: output).targets
    return Set(targets.flatMap { target in target.sources.map { "\(target.path)/\($0)" } })
  }

  /// The possible faults in sources under `folders`, ordered by file and position.
  func possibleFaults(under folders: [String]) throws -> [Fault] {
    let built = try builtSources()
    let wanted = try files().filter { file in folders.contains { file.hasPrefix($0 + "/") } && built.contains(file) }
    return try wanted.sorted().flatMap { file -> [Fault] in
      guard file.hasSuffix(".swift") || file.hasSuffix(".c") else { return [] }
      let source = SourceText(try text(file))
      return file.hasSuffix(".c") ? try cFaults(in: file, source, root: root) : swiftFaults(in: file, source)
    }
  }

  func text(_ file: String) throws -> String { try String(contentsOfFile: "\(root)/\(file)", encoding: .utf8) }

  /// Writes the copy with `faults`, by number. Does not rewrite unchanged files, to keep builds short.
  func write(_ faults: [Int: Fault]) throws {
    var byFile: [String: [(number: Int, fault: Fault)]] = [:]
    for (number, fault) in faults { byFile[fault.file, default: []].append((number, fault)) }
    let manager = FileManager.default
    var written: Set<String> = []
    for file in try files() {
      written.insert(file)
      let from = "\(root)/\(file)"
      if let target = try? manager.destinationOfSymbolicLink(atPath: from) {
        try? manager.removeItem(atPath: "\(copy)/\(file)")
        try folder(of: "\(copy)/\(file)")
        try manager.createSymbolicLink(atPath: "\(copy)/\(file)", withDestinationPath: target)
        continue
      }
      var bytes = try Data(contentsOf: URL(fileURLWithPath: from))
      if let here = byFile[file] {
        bytes = Data(switched(SourceText(String(decoding: bytes, as: UTF8.self)), here, file).utf8)
      }
      if file == "Package.swift" { bytes += Data(manifestEnd.utf8) }
      let mode = try manager.attributesOfItem(atPath: from)[.posixPermissions]
      try put(bytes, "\(copy)/\(file)", mode)
    }
    for (file, bytes) in try switchFiles() {
      written.insert(file)
      try put(bytes, "\(copy)/\(file)", nil)
    }
    // Deletes files that are no longer in the package.
    let there = manager.enumerator(atPath: copy)
    while let file = there?.nextObject() as? String {
      if file == ".build" {
        there?.skipDescendants()
      } else if there?.fileAttributes?[.type] as? FileAttributeType != .typeDirectory, !written.contains(file) {
        try manager.removeItem(atPath: "\(copy)/\(file)")
      }
    }
  }

  /// The source files of the switch, by path in the copy.
  private func switchFiles() throws -> [String: Data] {
    let folder = URL(fileURLWithPath: #filePath).appendingPathComponent("../../Switch").standardizedFileURL.path
    func bytes(_ file: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(file)")) }
    return [
      "FaultSwitch/fault_switch.c": try bytes("fault_switch.c"),
      "FaultSwitch/fault_switch_here.h": try bytes("fault_switch_here.h"),
      "FaultSwitch/include/fault_switch.h": try bytes("include/fault_switch.h"),
      "FaultSwitch/fault_switch_path.h": Data("#define FAULT_SWITCH_PATH \"\(switchPath)\"\n".utf8),
    ]
  }

  /// Makes every target that can have a fault depend on the switch.
  private var manifestEnd: String {
    """

    for target in package.targets where target.type == .regular || target.type == .executable {
      let path = target.path ?? "Sources/" + target.name
      guard ["CSupport/", "Sources/", "tools/culprit/"].contains(where: path.hasPrefix) else { continue }
      target.dependencies.append("CFaultSwitch")
    }
    package.targets.append(.target(name: "CFaultSwitch", path: "FaultSwitch"))

    """
  }

  private func switched(_ source: SourceText, _ faults: [(number: Int, fault: Fault)], _ file: String) -> String {
    // The import is in the first line, which keeps line numbers valid.
    var text = file.hasSuffix(".c") ? "" : "import CFaultSwitch; "
    var place = 0
    for (number, fault) in faults.sorted(by: { $0.fault.range.lowerBound < $1.fault.range.lowerBound }) {
      text += source[place..<fault.range.lowerBound] + fault.switched(source[fault.range], number: number)
      place = fault.range.upperBound
    }
    text += source[place..<source.bytes.count]
    return file.hasSuffix(".c") ? "#include \"\(copy)/FaultSwitch/fault_switch_here.h\"\n#line 1\n" + text : text
  }

  private func folder(of path: String) throws {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  private func put(_ bytes: Data, _ path: String, _ mode: Any?) throws {
    if (try? Data(contentsOf: URL(fileURLWithPath: path))) == bytes { return }
    try folder(of: path)
    try bytes.write(to: URL(fileURLWithPath: path))
    if let mode { try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path) }
  }

  /// Builds the copy's tests. Returns the lines with errors, by file, and the compilers' messages. Both are empty after
  /// a successful build.
  func build() throws -> (refused: [String: Set<Int>], errors: [Substring]) {
    let (status, output) = try run(["swift", "build", "--build-tests"], in: copy, withErrors: true)
    if status == 0 { return ([:], []) }
    let text = String(decoding: output, as: UTF8.self)
    var refused: [String: Set<Int>] = [:]
    // "/…/Sources/Blame/Blame.swift:12:3: error: …"
    for line in text.split(separator: "\n") where line.contains(": error: ") {
      let parts = line.split(separator: ":", maxSplits: 3)
      guard parts.count == 4, let number = Int(parts[1]) else { continue }
      var file = String(parts[0])
      if file.hasPrefix(copy + "/") { file.removeFirst(copy.count + 1) }
      refused[file, default: []].insert(number)
    }
    if refused.isEmpty { throw MutationError("the copy does not build:\n\(text.suffix(4000))") }
    return (refused, text.split(separator: "\n").filter { $0.contains(": error: ") })
  }

  /// Returns a fingerprint of the tests: of all files except Markdown and the sources that have faults.
  func testsFingerprint(without folders: [String]) throws -> String {
    var hash = FNV()
    for file in try files().sorted()
    where !file.hasSuffix(".md") && !folders.contains(where: { file.hasPrefix($0 + "/") }) {
      hash.add(file.utf8)
      // A symbolic link to a directory has no content.
      hash.add((try? Data(contentsOf: URL(fileURLWithPath: "\(root)/\(file)"))) ?? Data())
    }
    return String(hash.value, radix: 16)
  }
}

/// FNV-1a, of 64 bits.
struct FNV {
  private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  mutating func add(_ bytes: some Sequence<UInt8>) {
    for byte in bytes { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
  }
}
