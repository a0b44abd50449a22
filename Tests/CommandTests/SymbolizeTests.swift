import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct SymbolizeTests {
  @TemporaryDirectory private var directory: String

  private struct Failure: Error { var text: String }

  private func shell(_ command: String, in directory: String) throws -> String {
    let child = try ChildProcess("/bin/sh", ["-c", command], directory: directory, keepsErrors: true)
    guard child.hasExited, child.status == 0 else { throw Failure(text: child.errors) }
    return child.output
  }

  private static let source = """
    #include <string>
    #include <vector>
    #include <algorithm>
    #include <cstdio>
    namespace shop {
    struct Item { std::string name; int price; };
    class Catalog {
     public:
      void add(const std::string &name, int price) { items_.push_back({name, price}); }
      int total() const { int sum = 0; for (const auto &item : items_) sum += item.price; return sum; }
      void sort() { std::sort(items_.begin(), items_.end(), [](const Item &a, const Item &b) { return a.price < b.price; }); }
     private:
      std::vector<Item> items_;
    };
    }
    int main(int count, char **words) {
      shop::Catalog catalog;
      for (int i = 0; i < count * 100; i++) catalog.add(words[0], i ^ 5);
      catalog.sort();
      std::printf("%d\\n", catalog.total());
      return 0;
    }
    """

  private func buildProgram(_ compiler: String = "g++ -O2 -gdwarf-4") throws {
    try Self.source.write(toFile: directory + "/shop.cpp", atomically: true, encoding: .utf8)
    _ = try shell("\(compiler) -Wl,--build-id -o shop shop.cpp", in: directory)
  }

  /// Returns random addresses inside functions that have linkage names.
  private func addresses(_ directory: String, count: Int) throws -> [String] {
    var random = SystemRandomNumberGenerator()
    let functions = try shell("nm -S --defined-only shop", in: directory).split(separator: "\n")
      .compactMap { line -> ClosedRange<UInt64>? in
        let fields = line.split(separator: " ")
        guard fields.count == 4, fields[2] == "T" || fields[2] == "W", fields[3].hasPrefix("_Z"),
          let start = UInt64(fields[0], radix: 16), let size = UInt64(fields[1], radix: 16), size > 0
        else { return nil }
        return start...start + size - 1
      }
    try #require(functions.count >= 5)
    return (0..<count)
      .map { _ in
        "0x" + String(UInt64.random(in: functions[Int.random(in: 0..<functions.count, using: &random)]), radix: 16)
      }
  }

  /// The output must equal addr2line's, except for differences listed in docs/internals/symbols.md: addr2line misreads
  /// DWARF 5, and its names of inlined functions without a linkage name depend on earlier queries.
  @Test(arguments: ["g++ -O2 -gdwarf-4", "g++ -O1"]) func outputMatchesAddr2line(compiler: String) throws {
    try buildProgram(compiler)
    let input = try addresses(directory, count: 400).joined(separator: "\n") + "\n"
    try input.write(toFile: directory + "/addresses", atomically: true, encoding: .utf8)
    for options in [
      [], ["-f"], ["-i"], ["-fi"], ["-fia"], ["-fiaC"], ["-fip"], ["-fiapsC"], ["-s"], ["-ap"], ["-fCs"],
    ] {
      let expected = try shell("addr2line \(options.joined()) -e shop <addresses", in: directory)
      let found = try culprit(["symbolize", "-e", directory + "/shop"] + options, input: Data(input.utf8))
      #expect(found.out == expected, "\(options) \(input)")
      #expect(found.status == 0 && found.error == "", "\(options)")
    }
  }

  /// Compares function, file and line with llvm-symbolizer. `tools/prove symbols` runs the long version.
  @Test(arguments: ["g++ -O2 -gdwarf-5", "clang++ -O2 -gdwarf-5 -gsplit-dwarf", "clang++ -O1 -gdwarf-4"])
  func inlinedCallsMatchLLVM(compiler: String) throws {
    try buildProgram(compiler)
    let input = try addresses(directory, count: 1000).joined(separator: "\n") + "\n"
    try input.write(toFile: directory + "/addresses", atomically: true, encoding: .utf8)
    let options = "--output-style=GNU --no-demangle -fi"
    // llvm-symbolizer is in the directory of swift.
    let expected = try shell(
      "\"$(dirname \"$(realpath \"$(command -v swift)\")\")/llvm-symbolizer\" \(options) -e shop <addresses",
      in: directory
    )
    let found = try culprit(["symbolize", "-fi", "-e", directory + "/shop"], input: Data(input.utf8)).out
    /// Drops discriminators, which addr2line prints for the innermost call only, and the lines 0 and ?, which mean no
    /// line.
    func comparable(_ text: String) -> [Substring] {
      text.split(separator: "\n")
        .map { line in
          let line = line.prefix(upTo: line.range(of: " (discriminator")?.lowerBound ?? line.endIndex)
          return line.hasSuffix(":0") || line.hasSuffix(":?") ? line.dropLast(2) : line
        }
    }
    let (ours, theirs) = (comparable(found), comparable(expected))
    try #require(ours.count == theirs.count && ours.count >= 2000)
    for (line, other) in zip(ours, theirs) where line != other {
      // Constructors C1 and C2 share code, and so do destructors D1 and D2.
      let demangled = try shell("c++filt -n '\(line)' '\(other)'", in: directory).split(separator: "\n")
      #expect(demangled.first == demangled.last, "\(line) \(other)")
    }
  }

  @Test(arguments: ["-fa", "-fiap"]) func outputMatchesAddr2lineFor32BitFiles(options: String) throws {
    try "int pay(int x) { return x * 3; }\nint refund(int x) { return -pay(x); }\n"
      .write(toFile: directory + "/shop.c", atomically: true, encoding: .utf8)
    _ = try shell("gcc -m32 -O1 -g -nostdlib -shared -fPIC -o shop shop.c", in: directory)
    let listed = try shell("nm shop | grep -E ' (pay|refund)$'", in: directory).split(separator: "\n")
    let addresses = listed.map { "0x" + $0.prefix(8) } + ["0x100000001"]
    try #require(addresses.count == 3)
    let expected = try shell("addr2line \(options) -e shop \(addresses.joined(separator: " "))", in: directory)
    #expect(try culprit(["symbolize", "-e", directory + "/shop", options] + addresses).out == expected)
  }

  @Test func acceptsAddressesAsArguments() throws {
    try buildProgram()
    let main = try shell("nm shop | grep ' T main$'", in: directory).prefix(16)
    let expected = try shell("addr2line -f -e shop \(main) 0 zzz", in: directory)
    #expect(try culprit(["symbolize", "-e", directory + "/shop", "-f", String(main), "0", "zzz"]).out == expected)
  }

  @Test func answersEachLineImmediately() throws {
    try buildProgram()
    let words = ["symbolize", "-f", "-e", directory + "/shop"]
    let process = try RunningProcess(builtProgram("culprit").path, words)
    for _ in 0..<3 {
      process.write(Data("0\n".utf8))
      #expect(process.next() == "??\n??:0\n")
    }
    process.closeInput()
    #expect(process.end() == (0, true))
  }

  @Test func printsJSONObjectPerAddress() throws {
    struct Call: Decodable {
      var function: String?
      var rawName: String?
      var inlined: Bool
      var file: String?
      var line: Int
    }
    struct Answer: Decodable {
      var address: String
      var calls: [Call]
      var missing: String?
    }
    try buildProgram()
    let main = "0x" + (try shell("nm shop | grep ' T main$'", in: directory).prefix(16).drop { $0 == "0" })
    let text = try culprit(["symbolize", "--format=json", "-e", directory + "/shop", main, "0x1"]).out
    let answers = try text.split(separator: "\n").map { try JSONDecoder().decode(Answer.self, from: Data($0.utf8)) }
    try #require(answers.count == 2)
    #expect(answers[0].address == main)
    #expect(answers[0].calls.map(\.function) == ["main"])
    #expect(answers[0].calls.first?.line == 16)
    #expect(answers[1].calls.isEmpty)
    #expect(answers[1].missing == "the file has no symbol for this address")
  }

  @Test func findsFileByBuildID() throws {
    try buildProgram()
    let id = try #require(
      try shell("readelf -n shop", in: directory).split(separator: "\n").first { $0.contains("Build ID") }?
        .split(separator: " ").last
    )
    _ = try shell(
      "mkdir -p .build-id/\(id.prefix(2)) && ln -s ../../shop .build-id/\(id.prefix(2))/\(id.dropFirst(2))",
      in: directory
    )
    let main = String(try shell("nm shop | grep ' T main$'", in: directory).prefix(16))
    let found = try culprit(["symbolize", "-f", "--build-id=\(id)", "--debug-dir=\(directory)", main])
    #expect(found.out.hasPrefix("main\n"))
    let missing = try culprit(["symbolize", "-f", "--build-id=00\(id)", "--debug-dir=\(directory)", main])
    #expect(missing.status == 1)
    #expect(missing.error.contains("no file with the build-id 00\(id) in \(directory), /usr/lib/debug"))
  }

  @Test(arguments: [
    (["symbolize"], "missing -e FILE or --build-id=ID"), (["symbolize", "-e"], "-e needs an argument"),
    (["symbolize", "-e", "a", "--build-id=00"], "exclude each other"),
    (["symbolize", "--build-id=xyz"], "--build-id is hexadecimal"),
    (["symbolize", "-e", "a", "--format=xml"], "--format is addr2line or json"),
    (["symbolize", "-o", "x", "-e", "a"], "-o is for saved samples"),
    (["symbolize", "-o", "x", "a", "b"], "one saved file"),
  ])
  func rejectsInvalidUsage(arguments: [String], reason: String) throws {
    let found = try culprit(arguments)
    #expect(found.status == 2)
    #expect(found.error.contains(reason))
    #expect(found.out.isEmpty)
  }

  @Test func exitsWithOneOnUnreadableFile() throws {
    let missing = try culprit(["symbolize", "-e", "/nonexistent/file", "0"])
    #expect(missing.status == 1)
    #expect(missing.error == "culprit: cannot open /nonexistent/file: No such file or directory\n")
    #expect(try culprit(["symbolize", "-e", "/etc/passwd", "0"]).error == "culprit: /etc/passwd is not an ELF file\n")
  }

  @Test func rejectsObjectFilesAndCoreDumps() throws {
    try buildProgram()
    _ = try shell("g++ -g -c -o shop.o shop.cpp", in: directory)
    let object = try culprit(["symbolize", "-f", "-e", directory + "/shop.o", "0"])
    #expect(object.status == 1 && object.out == "")
    #expect(object.error.contains("/shop.o: it is an object file (.o, .ko)"))
    var program = try Data(contentsOf: URL(fileURLWithPath: directory + "/shop"))
    program[16] = 4
    try program.write(to: URL(fileURLWithPath: directory + "/core"))
    let core = try culprit(["symbolize", "--format=json", "-e", directory + "/core", "0"])
    #expect(core.status == 1 && core.out == "")
    #expect(core.error.contains("/core: it is a core dump"))
  }

  @Test func embedsNamesInSavedSamples() throws {
    try buildProgram("g++ -O0 -g -no-pie")
    let main = try #require(UInt64(try shell("nm shop | grep ' T main$'", in: directory).prefix(16), radix: 16))
    let id = try shell("readelf -n shop", in: directory).split(separator: "\n").first { $0.contains("Build ID") }?
      .split(separator: " ").last
    let digits = Array(String(try #require(id)))
    let buildID = stride(from: 0, to: digits.count, by: 2).compactMap {
      UInt8(String(digits[$0...$0 + 1]), radix: 16)
    }
    let segment = try #require(
      try shell("readelf -lW shop", in: directory).split(separator: "\n").first {
        $0.contains("LOAD") && $0.contains("R E")
      }
    )
    let numbers = segment.split(separator: " ").filter { $0.hasPrefix("0x") }.compactMap {
      UInt64($0.dropFirst(2), radix: 16)
    }
    let mapping = Module.Mapping(
      start: RuntimeAddress(numbers[1]),
      end: RuntimeAddress(numbers[1] + numbers[3]),
      fileOffset: numbers[0]
    )
    let recording = Recording(
      process: nil,
      modules: [Module(path: directory + "/shop", buildID: buildID, mappings: [mapping])],
      stacks: [Stack(frames: [.programCounter(RuntimeAddress(main + 4))], end: .outermost)],
      stalls: [
        Stall(
          "http",
          thread: (1, "shop"),
          samples: [Sample(age: .milliseconds(500), stack: 0, outcome: .captured, cpuTime: nil)],
          duration: .seconds(2),
          hasEnded: true
        )
      ]
    )
    let (saved, named) = (directory + "/saved.stall", directory + "/named.stall")
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: saved))
    let made = try culprit(["symbolize", "-o", named, saved])
    #expect(made.status == 0)
    #expect(made.error == "")
    let before = try culprit(["report", saved]).out
    #expect(before.contains("main"))
    try FileManager.default.removeItem(atPath: directory + "/shop")
    #expect(try culprit(["report", named]).out == before)
    #expect(try culprit(["report", saved]).out != before)
    #expect(try culprit(["info", named]).out.contains("  names     for 1 addresses\n"))
    let piped = try culprit(["symbolize", "-o", "-"], input: Data(contentsOf: URL(fileURLWithPath: named)))
    #expect(piped.status == 0)
    #expect(piped.out.hasPrefix("CULPRIT\n"))
  }
}
