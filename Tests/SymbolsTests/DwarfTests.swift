import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct DwarfTests {
  private let fixture = Fixture()

  @Test(arguments: [
    "g++ -gdwarf-2", "g++ -gdwarf-3", "g++ -gdwarf-4", "g++ -gdwarf-5", "g++ -g -gz=zlib", "g++ -g -gz=zlib-gnu",
    "g++ -gdwarf-5 -gdwarf64", "g++ -gdwarf-4 -fdebug-types-section", "g++ -g -no-pie", "g++ -g -static-pie",
    "g++ -gdwarf-4 -gsplit-dwarf", "g++ -gdwarf-5 -gsplit-dwarf", "g++ -gdwarf-4 -gsplit-dwarf -fdebug-types-section",
    "g++ -gdwarf-5 -gsplit-dwarf -fdebug-types-section", "g++ -gdwarf-5 -gsplit-dwarf -fdebug-types-section -gz=zlib",
    "clang++ -gdwarf-5 -gsplit-dwarf -fdebug-types-section", "g++ -g -fno-dwarf2-cfi-asm -ffunction-sections",
    "clang++ -gdwarf-2", "clang++ -gdwarf-3", "clang++ -gdwarf-4", "clang++ -gdwarf-5", "clang++ -g -gz=zlib",
    "clang++ -gdwarf-5 -gdwarf64", "clang++ -gdwarf-4 -gsplit-dwarf", "clang++ -gdwarf-5 -gsplit-dwarf",
    "clang++ -g -fuse-ld=lld -ffunction-sections -Wl,--gc-sections", "clang++ -g -flto -fuse-ld=lld",
  ])
  func listsInlinedCallsInnermostFirst(compiler: String) throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("\(compiler) -O2 -o nested nested.cpp")
    try expectNestedCalls(fixture, "nested")
  }

  /// The compilers cannot compress with Zstandard, but objcopy can.
  @Test(arguments: ["g++", "g++ -m32 -nostdlib -shared -fPIC"])
  func readsZstandardSections(compiler: String) throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("\(compiler) -O2 -g -o nested nested.cpp && objcopy --compress-debug-sections=zstd nested")
    try #require(try fixture.run("readelf -tW nested").contains("ZSTD"))
    try expectNestedCalls(fixture, "nested")
  }

  func expectNestedCalls(_ fixture: Fixture, _ file: String, addressFrom: String? = nil) throws {
    let found = try fixture.describe("marker", in: file, addressFrom: addressFrom)
    #expect(found.calls.compactMap(\.rawName) == nestedNames)
    #expect(found.calls.map(\.line) == nestedLines)
    #expect(found.calls.map(\.isInlined) == [true, true, false])
    #expect(found.calls.allSatisfy { $0.file == fixture.path("nested.cpp") })
  }

  @Test(arguments: [4, 5]) func findsSplitPackage(version: Int) throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.write("int other(int x) { return x + 1; }", "other.cpp")
    // dwp of the binutils reads only version 4, and the toolchain has no dwp of LLVM.
    try fixture.run(
      "g++ -O2 -gdwarf-\(version) -gsplit-dwarf -c nested.cpp other.cpp && g++ -o nested nested.o other.o"
    )
    if version == 4 {
      try fixture.run("dwp -o nested.dwp other.dwo nested.dwo && rm *.dwo")
    }
    try expectNestedCalls(fixture, "nested")
  }

  @Test func reportsMissingSplitFile() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -gdwarf-5 -gsplit-dwarf -o nested nested.cpp && rm *.dwo")
    let symbolizer = try fixture.symbolizer("nested")
    let found = symbolizer.describe(try fixture.address(of: "marker", in: "nested"))
    #expect(found.calls.map(\.line) == [3])
    #expect(symbolizer.problems.count == 1)
    #expect(symbolizer.problems.first?.contains("which debug information was split off to, is not there") == true)
  }

  @Test func attributesColdPartsToFunction() throws {
    try fixture.write(
      """
      __attribute__((noinline)) void attempt(int value) { if (value > 1000) throw value; }
      __attribute__((noinline)) int check(int value) {
        try {
          attempt(value);
        } catch (int thrown) {
          return thrown * 3;
        }
        return value + 1;
      }
      int main(int count, char **) { return check(count); }
      """,
      "cold.cpp"
    )
    try fixture.run("g++ -O2 -g -o cold cold.cpp")
    let found = try fixture.describe("_Z5checki.cold", in: "cold")
    #expect(found.calls.map(\.rawName) == ["_Z5checki"])
    #expect(found.calls.last?.file == fixture.path("cold.cpp"))
    #expect(found.symbol?.name == "_Z5checki.cold")
    let file = SymbolFile(try ElfImage(path: fixture.path("cold")), search: DebugSearch())
    let whole = try #require(file.frames(at: try fixture.address(of: "_Z5checki", in: "cold"), module: "cold").last)
    let part = try #require(file.frames(at: found.address, module: "cold").last)
    #expect(part.rawName == "_Z5checki" && part.function == "check")
    #expect(part.start == whole.start && part.rawName == whole.rawName)
  }

  @Test func resolvesOriginsAndSpecifications() throws {
    try fixture.write(
      """
      #include <cstdio>
      template <typename T> struct Box {
        T value;
        __attribute__((noinline)) T twice() {
          asm volatile(".globl in_template\\nin_template: nop");
          return value + value;
        }
      };
      int main(int count, char **) {
        struct Local {
          static __attribute__((noinline)) int run(int x) { asm volatile(".globl in_local\\nin_local: nop"); return x * 3; }
        };
        auto lambda = [](int x) __attribute__((noinline)) { asm volatile(".globl in_lambda\\nin_lambda: nop"); return x * 5; };
        return Box<long>{count}.twice() + Local::run(count) + lambda(count);
      }
      """,
      "names.cpp"
    )
    for compiler in ["g++", "clang++"] {
      try fixture.run("\(compiler) -O1 -g -o names names.cpp")
      #expect(try fixture.describe("in_template", in: "names").calls.map(\.rawName) == ["_ZN3BoxIlE5twiceEv"])
      let local = try fixture.describe("in_local", in: "names")
      #expect(local.symbol?.name == "_ZZ4mainEN5Local3runEi")
      #expect(local.calls.map(\.line) == [11])
      let lambda = try fixture.describe("in_lambda", in: "names")
      #expect(demangledName(try #require(lambda.symbol?.name)).contains("::operator()(int)"))
      #expect(lambda.calls.map(\.line) == [13])
    }
  }

  /// clang writes no `.debug_aranges`, gcc does.
  @Test func findsUnitsWithoutAddressRanges() throws {
    try fixture.write(
      "int first(int x) { asm volatile(\".globl in_first\\nin_first: nop\"); return x + 1; }",
      "first.c"
    )
    try fixture.write(
      "int second(int x) { asm volatile(\".globl in_second\\nin_second: nop\"); return x + 2; }",
      "second.c"
    )
    try fixture.run(
      "gcc -O1 -g -fPIC -c first.c && clang -O1 -g -fPIC -c second.c && gcc -shared -o both.so first.o second.o"
    )
    #expect(try fixture.describe("in_first", in: "both.so").calls.map(\.rawName) == ["first"])
    #expect(try fixture.describe("in_second", in: "both.so").calls.map(\.rawName) == ["second"])
  }

  @Test func resolvesInlinedCallers() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -shared -fPIC -Wl,--build-id -o nested.so nested.cpp")
    let image = try ElfImage(path: fixture.path("nested.so"))
    let marker = try fixture.address(of: "marker", in: "nested.so")
    let base: UInt64 = 0x7f00_0000_0000
    let module = image.mapped(at: base)
    let frames = Symbolizer(modules: [module]).resolve(.programCounter(RuntimeAddress(base + marker.value)))
    #expect(frames.map(\.function) == ["shop::inner", "shop::Index::middle", "shop::Index::find"])
    #expect(frames.map(\.isInlined) == [true, true, false])
    #expect(frames.map { $0.location?.line } == nestedLines)
    let returned = Symbolizer(modules: [module]).resolve(.returnAddress(RuntimeAddress(base + marker.value + 1)))
    #expect(returned == frames)
  }
}

@Suite(.ownThread) struct DebugFileTests {
  private let fixture = Fixture()

  private func stripped(_ fixture: Fixture, _ options: String = "") throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -Wl,--build-id \(options) -o nested nested.cpp")
    try fixture.run("objcopy --only-keep-debug nested nested.debug && cp nested full && strip nested")
  }

  private func expectNestedCalls(_ fixture: Fixture) throws {
    let found = try fixture.describe("marker", in: "nested", addressFrom: "full")
    #expect(found.calls.compactMap(\.rawName) == nestedNames)
    #expect(found.calls.map(\.line) == nestedLines)
  }

  @Test func findsDebugFileByBuildID() throws {
    try stripped(fixture)
    let id = hexadecimal(try ElfImage(path: fixture.path("nested")).buildID)
    try fixture.run(
      "mkdir -p .build-id/\(id.prefix(2)) && mv nested.debug .build-id/\(id.prefix(2))/\(id.dropFirst(2)).debug"
    )
    try expectNestedCalls(fixture)
  }

  @Test(arguments: ["", ".debug/"]) func findsDebugFileByDebugLink(place: String) throws {
    try stripped(fixture)
    try fixture.run("objcopy --add-gnu-debuglink=nested.debug nested")
    if !place.isEmpty { try fixture.run("mkdir \(place) && mv nested.debug \(place)") }
    try expectNestedCalls(fixture)
  }

  @Test func findsDebugLinkBelowDebugDirectory() throws {
    try stripped(fixture)
    try fixture.run(
      "objcopy --add-gnu-debuglink=nested.debug nested && mkdir -p ./$(pwd -P) && mv nested.debug ./$(pwd -P)/"
    )
    try expectNestedCalls(fixture)
  }

  @Test func rejectsFileOfOtherBuild() throws {
    try stripped(fixture)
    try fixture.run("objcopy --add-gnu-debuglink=nested.debug nested")
    try fixture.run("g++ -O1 -g -Wl,--build-id -o other nested.cpp && objcopy --only-keep-debug other nested.debug")
    let symbolizer = try fixture.symbolizer("nested")
    let found = symbolizer.describe(try fixture.address(of: "marker", in: "full"))
    #expect(found.calls.isEmpty)
    let problem = try #require(symbolizer.problems.first)
    #expect(problem.hasPrefix("\(fixture.path("nested.debug")) is of another build: its build-id is "))
  }

  @Test func rejectsFileWithOtherChecksum() throws {
    try stripped(fixture, "-Wl,--build-id=none")
    try fixture.run("objcopy --add-gnu-debuglink=nested.debug nested")
    try expectNestedCalls(fixture)
    try fixture.run("printf x >>nested.debug")
    let symbolizer = try fixture.symbolizer("nested")
    #expect(symbolizer.describe(try fixture.address(of: "marker", in: "full")).calls.isEmpty)
    #expect(symbolizer.problems.first?.contains("is another file: its checksum is ") == true)
  }

  /// Fedora's programs contain compressed symbols (GDB manual, "MiniDebugInfo").
  @Test func readsMiniDebugInfo() throws {
    try fixture.write(
      """
      __attribute__((noinline)) static int hidden(int x) { asm volatile(".globl in_hidden\\nin_hidden: nop"); return x * 3; }
      int main(int count, char **words) { (void)words; return hidden(count); }
      """,
      "packed.c"
    )
    try fixture.run("gcc -O1 -o packed packed.c && cp packed full && objcopy -S --keep-symbol=hidden packed mini")
    try fixture.run("xz mini && strip packed && objcopy --add-section .gnu_debugdata=mini.xz packed")
    let found = try fixture.describe("in_hidden", in: "packed", addressFrom: "full")
    #expect(found.symbol?.name == "hidden")
  }

  @Test(.needsTmp(because: "dwz writes temporary files there")) func findsSharedDebugInformation() throws {
    // dwz shares content only if there is enough.
    let common = (0..<40).map { "struct Type\($0) { int first\($0); long second\($0); Type\($0) *next; };" }
    try fixture.write(common.joined(separator: "\n") + "\n#line 1\n" + nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -fno-eliminate-unused-debug-types -Wl,--build-id -o nested nested.cpp")
    try fixture.run("g++ -O1 -g -fno-eliminate-unused-debug-types -Wl,--build-id -o other nested.cpp")
    try fixture.run("dwz -m shared.debug -r nested other")
    try #require(try fixture.run("readelf -SW nested").contains(".gnu_debugaltlink"))
    let found = try fixture.describe("marker", in: "nested")
    #expect(found.calls.compactMap(\.rawName) == nestedNames)
    #expect(found.calls.map(\.line) == nestedLines)
    try fixture.run("rm shared.debug")
    let symbolizer = try fixture.symbolizer("nested")
    _ = symbolizer.describe(try fixture.address(of: "marker", in: "nested"))
    #expect(
      symbolizer.problems.contains { $0.contains("shared.debug, which debug information refers to, is not there") }
    )
  }
}

@Suite(.ownThread) struct SymbolMemoryTests {
  @Test func memoryLimitPreservesNames() throws {
    let fixture = Fixture()
    for number in 0..<60 {
      try fixture.write(
        "int deep\(number)(int x) { return x * \(number); }\nint outer\(number)(int x) { return deep\(number)(x) + 1; }\n",
        "unit\(number).c"
      )
    }
    try fixture.run("gcc -O0 -g -shared -fPIC -Wl,--build-id -o many.so unit*.c")
    let image = try ElfImage(path: fixture.path("many.so"))
    let base: UInt64 = 0x7f00_0000_0000
    let module = image.mapped(at: base)
    let unlimited = Symbolizer(modules: [module])
    let limited = Symbolizer(modules: [module], memoryMax: 64 << 10)
    let text = try #require(image.sections.first { $0.name == ".text" })
    var highest = 0
    for address in stride(from: text.address, to: text.address + text.size, by: 7) {
      let frame = StackFrame.programCounter(RuntimeAddress(base + address))
      #expect(limited.resolve(frame) == unlimited.resolve(frame))
      highest = max(highest, limited.byteCount)
    }
    #expect(unlimited.byteCount > 64 << 10)
    // The size can exceed the limit a little between two checks.
    #expect(highest < 128 << 10, "\(unlimited.byteCount)")
  }
}

extension ElfImage {
  /// Returns a module with this file mapped at `base`.
  fileprivate func mapped(at base: UInt64) -> Module {
    let mappings = segments.filter { $0.type == ElfFormat.loadSegment }
      .map { segment in
        let start = RuntimeAddress(base + segment.address)
        let end = RuntimeAddress(base + segment.address + segment.fileSize)
        return Module.Mapping(start: start, end: end, fileOffset: segment.offset)
      }
    return Module(path: path, buildID: buildID, mappings: mappings)
  }
}
