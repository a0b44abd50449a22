import Foundation
import TestSupport
import Testing

/// `tools/mutate`, on a package of two functions, of which one has a test.
@Suite(.serialized) struct MutateTests {
  private let tool = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../tools/mutate").standardizedFileURL

  private let manifest = """
    // swift-tools-version: 6.1
    import PackageDescription

    let package = Package(
      name: "mini",
      targets: [
        .target(name: "CMini"), .target(name: "Mini", dependencies: ["CMini"]),
        .testTarget(name: "MiniTests", dependencies: ["Mini"]),
      ]
    )

    """
  private let source = """
    import CMini

    /// Whether somebody may vote.
    public func mayVote(age: Int) -> Bool { age >= limit() }

    public func untested(_ a: Int, _ b: Int) -> Int { a + b }

    """
  private let test = """
    import Glibc
    import Mini
    import Testing

    @Test func votersAreOfAge() {
      #expect(mayVote(age: 18) && !mayVote(age: 17))
      // It outlives its test, with what that prints to.
      #expect(system("setsid sleep 3600 & echo $! >child") == 0)
    }

    """

  @Test func faultsAreNoticedWhereTestsAre() throws {
    try withTemporaryDirectory { directory in
      let files = [
        "Package.swift": manifest, "Sources/Mini/Mini.swift": source, "Tests/MiniTests/MiniTests.swift": test,
        "Sources/CMini/include/mini.h":
          "int limit_from(int base);\nstatic inline long limit(void) { return limit_from(15); }\n",
        "Sources/CMini/mini.c": "#include \"mini.h\"\n\nint limit_from(int base) { return base + 3; }\n",
        ".gitignore": "/.build/\n",
      ]
      for (file, text) in files {
        let place = URL(fileURLWithPath: "\(directory)/\(file)")
        try FileManager.default.createDirectory(
          at: place.deletingLastPathComponent(),
          withIntermediateDirectories: true
        )
        try Data(text.utf8).write(to: place)
      }
      let made = try run(URL(fileURLWithPath: "/usr/bin/env"), ["git", "init", "--quiet", directory])
      #expect(made.status == 0, "\(made)")
      let outcome = try run(tool, ["--package", directory, "--faults", "10"])
      #expect(outcome.status == 0, "\(outcome)")
      let lines = outcome.out.split(separator: "\n")
      for (place, verdict) in [
        ("Mini.swift:4: age >= limit()  →  age > limit()", "noticed by votersAreOfAge()"),
        ("Mini.swift:6: a + b  →  a - b", "LEFT, no test comes there"),
        ("mini.c:3: base + 3  →  base - 3", "noticed by votersAreOfAge()"),
      ] {
        #expect(lines.contains { $0.contains(place) && $0.hasSuffix(verdict) }, "\(place) is missing in \(outcome)")
      }
      #expect(try figure("mutate.faults", in: outcome.out) == 3, "\(outcome)")
      #expect(try figure("mutate.noticed", in: outcome.out) == 2, "\(outcome)")
      // What a test has started is gone.
      let left = try String(contentsOfFile: "\(directory)/.build/mutate/package/child", encoding: .utf8)
      let child = try #require(pid_t(left.dropLast()))
      #expect(kill(child, 0) == -1 && errno == ESRCH)
      // What is built and known already is not done again.
      let again = try run(tool, ["--package", directory, "--faults", "10"])
      #expect(try figure("mutate.noticed", in: again.out) == 2, "\(again)")
      #expect(!again.out.contains("changed") && !again.out.contains("were run without a fault"), "\(again)")
      // Of other tests nothing is known.
      let more = test + "@Test func sumsAreSums() { #expect(untested(1, 2) == 3) }\n"
      try Data(more.utf8).write(to: URL(fileURLWithPath: "\(directory)/Tests/MiniTests/MiniTests.swift"))
      let changed = try run(tool, ["--package", directory, "--faults", "10"])
      #expect(try figure("mutate.noticed", in: changed.out) == 3 && changed.out.contains("changed"), "\(changed)")
    }
  }

  @Test func placesAreListed() throws {
    let outcome = try run(tool, ["--list", "--faults", "4", "Sources/Options"])
    #expect(outcome.status == 0, "\(outcome)")
    #expect(outcome.out.split(separator: "\n").contains { $0.hasPrefix("1 ") && $0.contains(" Sources/Options/") })
  }

  @Test(arguments: [["--faults", "many"], ["--fault"], ["Sources/Nowhere"]]) func mistakesAreTold(words: [String])
    throws
  {
    let outcome = try run(tool, words)
    #expect(outcome.status == 1 && outcome.error.contains(words.last ?? ""), "\(outcome)")
  }
}
