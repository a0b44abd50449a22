import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlame
@testable import CulpritReports

/// System call numbers from the kernel's headers (linux-libc-dev).
private enum KernelHeaders {
  static let paths = [
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h",
  ]

  static func isThere(_ architecture: String) -> Bool { access(paths[architecture] ?? "", R_OK) == 0 }

  static func numbers(_ architecture: String) throws -> [Int32: Set<String>] {
    let text = try String(contentsOfFile: try #require(paths[architecture]), encoding: .utf8)
    var names: [Int32: Set<String>] = [:]
    for line in text.split(separator: "\n") {
      // Generic numbers that depend on the offset size are defined as __NR3264.
      guard let match = line.wholeMatch(of: /#define __NR(?:3264)?_(\w+)\s+(\d+)/), let number = Int32(match.2) else {
        continue
      }
      names[number, default: []].insert(String(match.1))
    }
    return names
  }
}

@Suite struct SystemCallTests {
  @Test(.enabled(if: KernelHeaders.isThere("x86_64"), "no kernel headers for x86_64"))
  func namesMatchKernelOnX86() throws { try compare("x86_64", count: 362) }

  @Test(.enabled(if: KernelHeaders.isThere("aarch64"), "no generic kernel headers"))
  func namesMatchKernelOnArm() throws { try compare("aarch64", count: 305) }

  /// `count` is the number of known names.
  private func compare(_ architecture: String, count: Int) throws {
    let kernel = try KernelHeaders.numbers(architecture)
    try #require(kernel.count > 250)
    var known = 0
    for number in 0..<1000 as Range<Int32> {
      guard let name = SystemCalls.name(of: number, architecture: architecture) else { continue }
      known += 1
      #expect(kernel[number]?.contains(name) == true, "\(number): \(name)")
    }
    #expect(known == count)
  }

  @Test func numbersCallsOfOtherArchitectures() {
    #expect(SystemCallText.name(of: 1, architecture: "riscv64") == "system call 1")
  }
}

@Suite struct MissingNamesTests {
  private func node(_ module: String, _ missing: MissingNameReason?, _ children: [StallReport.Node] = [])
    -> StallReport.Node
  {
    let frame = ResolvedFrame(function: nil, module: module, address: .file(FileAddress(1)), missing: missing)
    return StallReport.Node(
      function: StallReport.Function(FrameContent(frame), OwnershipRules()),
      share: 0,
      seconds: Seconds(.zero),
      selfSeconds: Seconds(.zero),
      repetitions: 1,
      children: children
    )
  }

  private func module(_ path: String, _ buildID: [UInt8]) -> Module {
    Module(path: path, buildID: buildID, mappings: [])
  }

  @Test func suggestsDebugFilesForMissingNames() {
    let modules = (1...6).map { module("/lib/\($0).so", [UInt8($0), 0xab]) } + [module("/lib/plain.so", [])]
    func notes(_ numbers: ClosedRange<Int>, _ reason: MissingNameReason = .noSymbols) -> [String] {
      MissingNames(numbers.map { node("/lib/\($0).so", reason, [node("/lib/\($0).so", reason)]) }, modules).notes
    }
    #expect(notes(1...2).count == 3)
    #expect(notes(1...2)[0] == "no name in /lib/1.so: the file has no symbols")
    #expect(notes(1...4).last?.hasSuffix("the build-ids: 1.so 01ab, 2.so 02ab, 3.so 03ab, 4.so 04ab") == true)
    #expect(notes(1...5).last?.hasSuffix("3.so 03ab, 4.so 04ab and 1 more") == true)
    #expect(notes(1...6).last?.hasSuffix("4.so 04ab and 2 more") == true)
    for reason in [MissingNameReason.notMapped, .noFile, .noSymbolHere] { #expect(notes(1...1, reason).count == 1) }
    for reason in [MissingNameReason.unreadableFile("x"), .changedFile(expected: "a", found: "b"), .unverifiable] {
      #expect(notes(1...1, reason).count == 2)
    }
    #expect(MissingNames([node("/lib/plain.so", .noSymbols)], modules).notes.count == 1)
    #expect(MissingNames([node("", .notMapped)], modules).notes == ["no name in no module: no module was mapped there"])
    #expect(MissingNames([node("/lib/1.so", nil)], modules).notes == [])
  }

  @Test func omitsUnknownMetadata() {
    var (stall, builder) = exampleStall()
    var pairs = builder.report(of: stall).metadata
    #expect(
      pairs["thread.id"] == "4242" && pairs["thread.name"] == "shop" && pairs["culprit.module"] == "/opt/shop/bin/shop"
    )
    #expect(pairs["culprit.share"] == "0.796" && pairs["culprit.samples"] == "19")
    #expect(pairs["culprit.stall.threshold"] == "4.500" && pairs["culprit.stall.hang"] == "false")
    stall.thread.id = 0
    stall.notes = [StallNote(.hang, time: .seconds(5))]
    pairs = builder.report(of: stall).metadata
    #expect(pairs["thread.id"] == nil && pairs["thread.name"] == nil && pairs["culprit.stall.hang"] == "true")
  }
}
