import CulpritBlame
import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct OwnershipOfProgramsTests {
  /// A program of Swift and C with a package dependency and a static Swift runtime. The module and its source directory
  /// have different names.
  private func program(_ options: String) throws -> Fixture {
    let fixture = Fixture()
    try fixture.run("mkdir -p Sources/Server Sources/CShop .build/checkouts/swift-dep/Sources/Dep objects")
    try fixture.write(
      """
      public struct Index<Item: Hashable> {
        @usableFromInline var items: [Item: Int] = [:]
        public init() {}
        @inlinable public mutating func visit(_ count: Int, _ body: (Int) -> Item) {
          for number in 0..<count { note(body(number)) }
        }
        @inlinable @inline(never) public mutating func note(_ item: Item) { items[item, default: 0] += 1 }
      }
      @inline(never) public func handOn(_ body: () -> Int) -> Int { body() + 1 }
      """,
      ".build/checkouts/swift-dep/Sources/Dep/Dep.swift"
    )
    try fixture.write("unsigned swift_parse_config(unsigned number) { return number * 3u; }\n", "Sources/CShop/parse.c")
    try fixture.write(
      """
      import Dep
      @_silgen_name("swift_parse_config") func parse(_ number: UInt32) -> UInt32
      @inline(never) func fill(_ index: inout Index<String>) { index.visit(100) { String($0) } }
      @inline(never) func work() -> Int {
        var index = Index<String>()
        fill(&index)
        return handOn { Int(parse(UInt32(CommandLine.arguments.count))) }
      }
      nonisolated(unsafe) var taxes = [Int](repeating: 3, count: 64)
      nonisolated(unsafe) var discounts = [Int](repeating: 5, count: 64)
      @inline(never) func readTax(times: Int) -> Int {
        var sum = 0
        for _ in 0..<times { for i in 0..<64 { sum ^= taxes[i] &* 31 &+ sum } }
        return sum
      }
      @inline(never) func readDiscount(times: Int) -> Int {
        var sum = 0
        for _ in 0..<times { for i in 0..<64 { sum ^= discounts[i] &* 31 &+ sum } }
        return sum
      }
      print(work(), readTax(times: 2), readDiscount(times: 3))
      """,
      "Sources/Server/main.swift"
    )
    let root = fixture.directory
    try fixture.run(
      """
      swiftc \(options) -g -parse-as-library -module-name Dep -emit-module -emit-module-path objects/Dep.swiftmodule \
        -c -o objects/code.o \(root)/.build/checkouts/swift-dep/Sources/Dep/Dep.swift &&
      clang -O1 -g -c -o objects/parse.o \(root)/Sources/CShop/parse.c &&
      swiftc \(options) -g -module-name Shop -I objects -static-stdlib -o shop \(root)/Sources/Server/main.swift \
        objects/code.o objects/parse.o
      """
    )
    return fixture
  }

  /// Returns the owners of functions of `file`: all functions that tests name, and every eighth other function.
  private func owners(of file: String, in fixture: Fixture) throws -> [String: CodeOwner] {
    let image = try ElfImage(path: fixture.path(file))
    let base: UInt64 = 0x7000_0000_0000
    let module = Module(
      path: fixture.path(file),
      buildID: image.buildID,
      mappings: [Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base + (1 << 32)), fileOffset: 0)]
    )
    let symbolizer = Symbolizer(modules: [module])
    var owners: [String: CodeOwner] = [:]
    let named = ["Shop", "3Dep", "swift_", "main", "RefCounts"]
    for (number, line) in try fixture.run("nm --defined-only \(file)").split(separator: "\n").enumerated() {
      guard number % 8 == 0 || named.contains(where: { line.contains($0) }) else { continue }
      let fields = line.split(separator: " ")
      guard fields.count == 3, ["T", "t", "W"].contains(fields[1]), let address = UInt64(fields[0], radix: 16),
        let segment = image.segments.first(where: {
          $0.type == ElfFormat.loadSegment && $0.address <= address && address < $0.address + $0.fileSize
        })
      else { continue }
      let offset = address - segment.address + segment.offset
      let frame = StackFrame.programCounter(RuntimeAddress(base + offset))
      guard let outer = symbolizer.resolve(frame).last, let name = outer.rawName else { continue }
      owners[name] = CodeOwner.owner(of: outer)
    }
    return owners
  }

  @Test(arguments: ["-O", "-Onone"]) func assignsOwnerToEveryFunction(options: String) throws {
    let fixture = try program(options)
    let owners = try owners(of: "shop", in: fixture)
    func names(_ prefix: String) -> [String] { owners.keys.filter { $0.hasPrefix(prefix) } }
    for name in ["$s4Shop4workSiyF", "$s4Shop4fillyy3Dep5IndexVySSGzF", "swift_parse_config"] {
      #expect(owners[name] == .own, "\(name)")
    }
    // Merged functions have no line.
    let merged = names("$s4Shop").filter { $0.hasSuffix("Tm") }
    #expect(merged.isEmpty == (options == "-Onone"))
    for name in merged { #expect(owners[name] == .own, "\(name)") }
    #expect(owners["main"] == .entry)
    #expect(owners["$s3Dep6handOnyS2iyXEF"] == .dependency)
    // Includes specializations that were compiled with the program.
    #expect(options == "-Onone" || names("$s3Dep5IndexV4note").contains { $0.hasSuffix("Tg5") })
    for name in names("$s3Dep") { #expect([.dependency, .system].contains(owners[name]), "\(name)") }
    let runtime = names("_ZN5swift9RefCounts") + names("swift_retain") + names("$sSS") + names("_ZN5swift8Demangle")
    #expect(runtime.count > 50)
    for name in runtime { #expect(owners[name] == .system, "\(name)") }
    // The runtime has thousands of functions, this program only a few.
    let own = owners.filter { $0.value == .own }.map(\.key)
    #expect(own.allSatisfy { $0.contains("4Shop") || $0 == "swift_parse_config" }, "\(own)")
  }

  @Test func infersOwnersFromNames() throws {
    let fixture = try program("-O")
    try fixture.run("strip -g -o bare shop")
    let owners = try owners(of: "bare", in: fixture)
    #expect(owners["$s4Shop4workSiyF"] == .own && owners["swift_parse_config"] == .own)
    #expect(owners["swift_retain"] == .system && owners["main"] == .entry)
    for name in owners.keys where name.hasPrefix("_ZN5swift") { #expect(owners[name] == .system, "\(name)") }
  }
}
