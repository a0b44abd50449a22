import Judges
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Programs
import SplitMix

/// Compares names, files, lines and inlined calls with llvm-symbolizer's, and the cost of both symbolizers.
func benchSymbols(_ figures: Figures) throws {
  try SymbolsBench(addresses: 20_000, runs: 5).run(figures)
}

private struct SymbolsBench {
  /// The number of random addresses in each file.
  var addresses: Int
  /// The number of runs of each program for its time and memory.
  var runs: Int
  private let compiler: SymbolPrograms

  private let directory = "/tmp/culprit-bench-symbols-\(getpid())"
  private let culprit: String
  private let llvm: String

  init(addresses: Int, runs: Int) throws {
    self.addresses = addresses
    self.runs = runs
    culprit = programDirectory + "/culprit"
    // The toolchain's llvm-symbolizer is the newest available.
    let swift = try PeerRun(["sh", "-c", "dirname \"$(realpath \"$(command -v swift)\")\""]).output
    let toolchain = swift.split(separator: "\n").joined()
    llvm = toolchain + "/llvm-symbolizer"
    compiler = SymbolPrograms(directory: directory, toolchain: toolchain)
  }

  func run(_ figures: Figures) throws {
    mkdir(directory, 0o700)
    defer { _ = try? PeerRun(["rm", "-r", directory]) }
    let libc = try path(ofLibrary: "libc.so.6")
    let files = [
      ("libc", libc), ("swift", culprit), ("gcc", try compiler.cxx("g++ -O2 -g", "gcc")),
      ("clang_split", try compiler.cxx("clang++ -O2 -gdwarf-5 -gsplit-dwarf", "clang")),
    ]
    for (number, (name, file)) in files.enumerated() { try writeAddresses(of: file, name, seed: UInt64(number + 1)) }
    try compareCost("libc", libc, figures)
    try compareForms(files + compiler.others(), figures)
    for (name, file) in files {
      let share = try agreement(name, file, figures)
      figures.print("symbols.agree.\(name)", share * 100, "%", in: 99.9...100)
    }
    for library in ["libFoundation.so", "libswiftCore.so"] {
      let file = try path(ofLibrary: library)
      let share = try symbolsThatContain(file, randomAddresses(of: file, count: addresses, seed: 9))
      figures.print("symbols.contain.\(library)", share * 100, "%", in: 100...100)
    }
    try timeLookUps(libc, figures)
  }

  // MARK: Agreement

  /// Returns the share of addresses with llvm-symbolizer's function, file, line and number of inlined calls.
  private func agreement(_ name: String, _ file: String, _ figures: Figures) throws -> Double {
    let path = "\(directory)/addresses.\(name)"
    let input = readFile(path).split(separator: "\n").compactMap { UInt64($0.dropFirst(2), radix: 16) }
    // llvm-symbolizer reads the symbol table of the given file only.
    let debug = try debugFile(of: file)
    let text = try PeerRun(
      [llvm, "--output-style=GNU", "--no-demangle", "-f", "-i", "-a", "-e", debug],
      input: path
    ).output
    let starts = try symbolStarts([["nm", "--defined-only", debug], ["nm", "-D", "--defined-only", file]])
    var expected: [[(name: String, place: String)]] = []
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false)[...]
    while let line = lines.popFirst() {
      if line.hasPrefix("0x") {
        expected.append([])
      } else if !line.isEmpty, !expected.isEmpty, let place = lines.popFirst() {
        expected[expected.count - 1].append((String(line), String(place)))
      }
    }
    guard expected.count == input.count else {
      throw ProofError("llvm-symbolizer answered \(expected.count) of \(input.count) addresses")
    }
    let symbolizer = try AddressSymbolizer(path: file)
    var kinds: [String: Int] = [:]
    var agreed = 0
    for (address, calls) in zip(input, expected) {
      let found = symbolizer.find(FileAddress(address))
      if let kind = difference(found, calls, starts) { kinds[kind, default: 0] += 1 } else { agreed += 1 }
    }
    for (kind, count) in kinds.sorted(by: { $0.value > $1.value }) { figures.note("\(count) differ in the \(kind)") }
    return Double(agreed) / Double(input.count)
  }

  /// Returns the kind of difference between `found` and `expected`, or `nil`.
  private func difference(
    _ found: FoundAddress,
    _ expected: [(name: String, place: String)],
    _ starts: [String: Set<UInt64>]
  ) -> String? {
    /// Whether `name` is an alias of the found symbol: both have one address.
    func isAlias(_ name: String) -> Bool {
      found.symbol.map { starts[name]?.contains($0.range.start) ?? false } ?? false
    }
    let symbolName = found.symbol?.name.string
    guard !found.calls.isEmpty else {
      guard expected.count == 1, let only = expected.first else { return "number of calls" }
      if only.name != symbolName ?? "??", !isAlias(only.name) { return "symbol" }
      return file(of: only.place) == found.symbol?.file?.string ?? "??" ? nil : "file of a symbol"
    }
    guard found.calls.count == expected.count else { return "number of calls" }
    for (place, (call, other)) in zip(found.calls, expected).enumerated() {
      // The outermost function's name is in the symbol table, too.
      let isOutermost = place == expected.count - 1
      let names = [call.name?.string, isOutermost ? symbolName : nil].compactMap { $0 }
      guard names.contains(other.name) || (isOutermost && isAlias(other.name)) || (names.isEmpty && other.name == "??")
      else { return isOutermost ? "name of the function" : "name of an inlined function" }
      if call.file ?? "??" != file(of: other.place) { return "file" }
      if Int(call.line) != line(of: other.place) { return "line" }
    }
    return nil
  }

  private func file(of place: String) -> String {
    place.lastIndex(of: ":").map { String(place[..<$0]) } ?? place
  }

  private func line(of place: String) -> Int {
    place.split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0
  }

  /// Returns the addresses of the symbols that nm lists.
  private func symbolStarts(_ commands: [[String]]) throws -> [String: Set<UInt64>] {
    var starts: [String: Set<UInt64>] = [:]
    for command in commands {
      for line in try PeerRun(command, mayFail: true).output.split(separator: "\n") {
        let fields = line.split(separator: " ")
        guard fields.count == 3, let start = UInt64(fields[0], radix: 16) else { continue }
        starts[String(fields[2]), default: []].insert(start)
        // nm adds a version: "poll@@GLIBC_2.2.5".
        starts[String(fields[2].prefix { $0 != "@" }), default: []].insert(start)
      }
    }
    return starts
  }

  /// Returns the share of addresses with a symbol that nm lists for the address.
  private func symbolsThatContain(_ file: String, _ input: [UInt64]) throws -> Double {
    var symbols: [(start: UInt64, end: UInt64, name: String)] = []
    for line in try PeerRun(["nm", "-S", "--defined-only", file]).output.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.count == 4, "tTwWi".contains(fields[2]), let start = UInt64(fields[0], radix: 16),
        let size = UInt64(fields[1], radix: 16)
      else { continue }
      symbols.append((start, start + size, String(fields[3])))
    }
    symbols.sort { $0.start < $1.start }
    let longest = symbols.map { $0.end - $0.start }.max() ?? 0
    let symbolizer = try AddressSymbolizer(path: file)
    var right = 0
    for address in input {
      var low = symbols.startIndex
      var high = symbols.endIndex
      while low < high {
        let middle = (low + high) / 2
        if symbols[middle].start <= address { low = middle + 1 } else { high = middle }
      }
      var names: Set<String> = []
      for symbol in symbols[..<low].reversed() {
        if address - symbol.start > longest { break }
        if address < symbol.end { names.insert(symbol.name) }
      }
      let found = symbolizer.find(FileAddress(address)).symbol?.name.string
      // nm -S omits symbols without a length, and adds versions to names.
      if found.map({ name in names.contains { $0 == name || $0.hasPrefix(name + "@") } || names.isEmpty })
        ?? names.isEmpty
      {
        right += 1
      }
    }
    return Double(right) / Double(input.count)
  }

  // MARK: Cost

  /// Compares symbolizers on all addresses and on one. Uses CPU time, which other work on the machine does not change.
  private func compareCost(_ name: String, _ file: String, _ figures: Figures) throws {
    let input = "\(directory)/addresses.\(name)"
    let one = "\(directory)/address"
    try write(readFile(input).split(separator: "\n").prefix(1).joined() + "\n", to: one)
    let debug = try debugFile(of: file)
    let peers: [(String, [String])] = [
      ("culprit", [culprit, "symbolize", "-f", "-i", "-e", file]),
      ("llvm", [llvm, "--output-style=GNU", "-f", "-i", "-e", file]),
      ("addr2line", ["addr2line", "-f", "-i", "-e", debug]),
    ]
    // eu-addr2line takes seconds for libc, and minutes for large units (257 s for the C++ program).
    let slow = ("eu_addr2line", ["eu-addr2line", "-f", "-i", "-e", file])
    var cold: [String: Double] = [:]
    var peak: [String: Double] = [:]
    for (group, count) in [(peers, runs), ([slow], 1)] {
      let whole = try PeerRun.medians(count, group.map(\.1), input: input)
      let single = try PeerRun.medians(count * 3, group.map(\.1), input: one)
      for (place, (peer, _)) in group.enumerated() {
        peak[peer] = whole[place].peakBytes
        cold[peer] = single[place].processorSeconds
        figures.print("symbols.time.\(name).\(peer)", whole[place].processorSeconds * 1000, "ms")
        figures.print("symbols.memory.\(name).\(peer)", whole[place].peakBytes / 1_048_576, "MiB")
        figures.print("symbols.cold.\(name).\(peer)", single[place].processorSeconds * 1000, "ms")
      }
    }
    guard let ours = peak["culprit"], let theirs = peak["llvm"], let coldOurs = cold["culprit"],
      let coldTheirs = cold["llvm"]
    else { return }
    figures.print("symbols.memory_ratio", ours / theirs, "times", in: 0...0.5)
    figures.print("symbols.cold_ratio", coldOurs / coldTheirs, "times", in: 0...1)
  }

  /// Compares plain output and JSON for each of `files` with llvm-symbolizer, for many addresses and a tenth of them.
  /// The bound of the geometric mean is narrow, the bound of each file wide.
  private func compareForms(_ files: [(String, String)], _ figures: Figures) throws {
    for (form, option, style) in [("plain", "-fi", "GNU"), ("json", "--format=json", "JSON")] {
      for (amount, count) in [("", addresses), ("_few", addresses / 10)] {
        var ratios: [Double] = []
        for (name, path) in files {
          let input = "\(directory)/addresses.forms"
          let places = try randomAddresses(of: path, count: count, seed: 5)
          try write(places.map { "0x" + String($0, radix: 16) + "\n" }.joined(), to: input)
          let commands = [
            [culprit, "symbolize", option, "-e", path], [llvm, "--output-style=\(style)", "-f", "-i", "-e", path],
          ]
          let times = try PeerRun.medians(5, commands, input: input).map(\.processorSeconds)
          ratios.append(times[0] / times[1])
          figures.print("symbols.\(form)\(amount).\(name)", times[0] / times[1], "times")
        }
        let mean = exp(ratios.map { log($0) }.reduce(0, +) / Double(ratios.count))
        figures.print("symbols.\(form)\(amount)_mean", mean, "times", in: 0...(amount.isEmpty ? 0.5 : 0.75))
        guard amount.isEmpty else { continue }
        figures.print("symbols.\(form)_worst", ratios.max() ?? .infinity, "times", in: 0...0.75)
      }
    }
  }

  /// Times lookups in this process: of a known address, and of a new address in a known unit.
  private func timeLookUps(_ file: String, _ figures: Figures) throws {
    let base: UInt64 = 0x7f00_0000_0000
    let mapping = Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base + 1 << 30), fileOffset: 0)
    let buildID = try AddressSymbolizer(path: file).buildID
    let symbolizer = Symbolizer(modules: [Module(path: file, buildID: buildID, mappings: [mapping])])
    let frames = try randomAddresses(of: file, count: 2 * addresses, seed: 17)
      .map { StackFrame.programCounter(RuntimeAddress(base + $0)) }
    for frame in frames[..<addresses] { _ = symbolizer.resolve(frame) }
    func times(_ frames: ArraySlice<StackFrame>) -> [Double] {
      let clock = ContinuousClock()
      return frames.map { frame in
        let time = clock.measure { _ = symbolizer.resolve(frame) }
        return Double(time.components.attoseconds) / 1e9
      }
    }
    let empty = median((0..<1000).map { _ in Double(ContinuousClock().measure {}.components.attoseconds) / 1e9 })
    figures.note("reading the clock takes \(Int(empty)) ns, which is subtracted")
    figures.print("symbols.new_address_ns", median(times(frames[addresses...])) - empty, "ns", in: 0...2000)
    // A stall has some hundred distinct addresses, which are looked up repeatedly.
    let known = (0..<20).flatMap { _ in times(frames[..<1000]) }
    figures.print("symbols.known_address_ns", median(known) - empty, "ns", in: 0...200)
  }

  // MARK: Files

  private func path(ofLibrary name: String) throws -> String {
    let line = readFile("/proc/self/maps").split(separator: "\n").first { $0.hasSuffix("/" + name) }
    if let line, let slash = line.firstIndex(of: "/") { return String(line[slash...]) }
    // This program does not link the library: search next to libswiftCore.so.
    let core = readFile("/proc/self/maps").split(separator: "\n").first { $0.hasSuffix("/libswiftCore.so") }
    guard let core, let slash = core.firstIndex(of: "/") else {
      throw ProofError("this process has no \(name)")
    }
    return core[slash...].dropLast("libswiftCore.so".count) + name
  }

  /// Returns the path of the debug information of `file`, because addr2line does not search every directory.
  private func debugFile(of file: String) throws -> String {
    let id = try AddressSymbolizer(path: file).buildID
    let digits = hexadecimal(id)
    let path = "/usr/lib/debug/.build-id/\(digits.prefix(2))/\(digits.dropFirst(2)).debug"
    return access(path, R_OK) == 0 ? path : file
  }

  private func writeAddresses(of file: String, _ name: String, seed: UInt64) throws {
    let input = try randomAddresses(of: file, count: addresses, seed: seed)
    try write(input.map { "0x" + String($0, radix: 16) + "\n" }.joined(), to: "\(directory)/addresses.\(name)")
  }

  private func randomAddresses(of file: String, count: Int, seed: UInt64) throws -> [UInt64] {
    let sections = try PeerRun(["readelf", "-SW", file]).output.split(separator: "\n")
    let fields = sections.map { $0.drop { $0 != "." }.split(separator: " ") }.first { $0.first == ".text" }
    guard let fields, fields.count > 4, let start = UInt64(fields[2], radix: 16),
      let size = UInt64(fields[4], radix: 16)
    else { throw ProofError("\(file) has no section .text") }
    var random = SplitMix(seed)
    return (0..<count).map { _ in UInt64.random(in: start..<start + size, using: &random) }
  }

  private func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    guard descriptor >= 0, Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
      throw ProofError("cannot write \(path)")
    }
  }
}
