import Foundation
import TestSupport
import Testing

/// Signatures must be equal for two builds that differ in lines, closure numbers and addresses.
@Suite(.ownThread) struct RebuildTests {
  @TemporaryDirectory private var directory: String

  private struct Stall: Equatable {
    var signature: String
    var place: String
    var function: String
  }

  /// Each function spends nearly all of its time in its own code, not in clock calls.
  private static let swift = """
    import Glibc
    @inline(__always) private func now() -> Double {
      var time = timespec()
      clock_gettime(CLOCK_MONOTONIC, &time)
      return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
    @inline(never) func apply(_ body: () -> Int) -> Int { body() + 1 }
    MOVED
    struct Catalog {
      var count = 0
      @inline(never) mutating func rebuild(for seconds: Double) {
        let end = now() + seconds
        while now() < end { for turn in 0..<100_000 { count = (count &+ turn) ^ (count >> 3) } }
      }
    }
    @inline(never) private func settle(_ seconds: Double) -> Int {
      let end = now() + seconds
      var turns = 0
      while now() < end { for turn in 0..<100_000 { turns = (turns &+ turn) ^ (turns >> 3) } }
      return turns
    }
    @inline(never) func merge<Element: Equatable>(_ list: [Element], _ seconds: Double) -> Element? {
      let end = now() + seconds
      var least = list.first
      while now() < end {
        for _ in 0..<10_000 { for element in list where element != least! { least = element } }
      }
      return least
    }
    @inline(never) func search(_ seconds: Double) -> Int {
      var found = 0
      CLOSURE
      found += apply {
        let end = now() + seconds
        var turns = 0
        while now() < end { for turn in 0..<100_000 { turns = (turns &+ turn) ^ (turns >> 3) } }
        return turns
      }
      return found
    }
    @_cdecl("shop_work") public func work(_ number: Int32, _ seconds: Double) {
      switch number {
      case 0:
        var catalog = Catalog()
        catalog.rebuild(for: seconds)
      case 1: _ = settle(seconds)
      case 2: _ = merge([3, 2, 1], seconds)
      default: _ = search(seconds)
      }
    }
    """

  private static let cpp = """
    #include <ctime>
    static inline double now() {
      timespec time;
      clock_gettime(CLOCK_MONOTONIC, &time);
      return time.tv_sec + time.tv_nsec / 1e9;
    }
    template <typename Body> __attribute__((noinline)) int apply(Body body) { return body() + 1; }
    MOVED
    namespace shop {
    struct Catalog {
      volatile int count = 0;
      __attribute__((noinline)) void rebuild(double seconds) {
        double end = now() + seconds;
        while (now() < end) for (int i = 0; i < 100000; i++) count = count + 1;
      }
    };
    namespace {
    __attribute__((noinline)) int settle(double seconds) {
      double end = now() + seconds;
      volatile int turns = 0;
      while (now() < end) for (int i = 0; i < 100000; i++) turns = turns + 1;
      return turns;
    }
    }
    template <typename Element> __attribute__((noinline)) Element merge(Element first, double seconds) {
      double end = now() + seconds;
      volatile Element sum = first;
      while (now() < end) for (int i = 0; i < 100000; i++) sum = sum + first;
      return sum;
    }
    int search(double seconds) {
      int found = 0;
      CLOSURE
      found += apply([seconds]() __attribute__((noinline)) {
        double end = now() + seconds;
        volatile int turns = 0;
        while (now() < end) for (int i = 0; i < 100000; i++) turns = turns + 1;
        return turns;
      });
      return found;
    }
    }
    extern "C" void shop_work(int number, double seconds) {
      shop::Catalog catalog;
      switch (number) {
      case 0: catalog.rebuild(seconds); break;
      case 1: shop::settle(seconds); break;
      case 2: shop::merge<long>(3, seconds); break;
      default: shop::search(seconds);
      }
    }
    """

  private static let more = [
    "swift": (
      """
      @inline(never) func prepare(_ amount: Int) -> Int { amount &* 7 }
      @_cdecl("more") public func more() -> Int { prepare(3) }
      """,
      "found += apply { 5 }"
    ),
    "cpp": ("int more(int n) { return n * 7; }", "found += apply([seconds]() { return seconds > 5 ? 1 : 2; });"),
  ]

  private static let functions = [
    "swift": (
      ["Catalog.rebuild(for:)", "settle(_:)", "merge(_:_:)", "closure #1 in search(_:)"],
      ["Catalog.rebuild(for:)", "settle(_:)", "merge(_:_:)", "closure #2 in search(_:)"]
    ),
    "cpp": (
      ["shop::Catalog::rebuild", "shop::settle", "shop::merge", "$_0::operator() in shop::search"],
      ["shop::Catalog::rebuild", "shop::settle", "shop::merge", "$_1::operator() in shop::search"]
    ),
  ]

  @Test(arguments: [
    ("swift", ["-O", "-g", "-module-name", "Shop"]), ("swift", ["-Onone", "-g", "-module-name", "Shop"]),
    ("cpp", ["-O2", "-g"]),
  ])
  func signatureSurvivesRebuild(language: String, options: [String]) throws {
    let source = language == "swift" ? Self.swift : Self.cpp
    let (moved, closure) = try #require(Self.more[language])
    let builds = try [("", ""), (moved + String(repeating: "\n", count: 40), closure)].enumerated()
      .map { number, added in
        let place = "\(directory)/\(number)"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        let text = source.replacingOccurrences(of: "MOVED", with: added.0)
          .replacingOccurrences(of: "CLOSURE", with: added.1)
        return try compiledLibrary(text, language: language, name: "libshop", in: place, options: options)
      }
    let child = try ChildProcess(
      "/usr/bin/timeout",
      ["--signal=KILL", "90", ChildProcess.built("policy-process"), "builds", "4"] + builds
    )
    let stalls = child.output.split(separator: "\n").filter { $0.hasPrefix("stall=") }
      .map { line in
        let parts = line.dropFirst(6).split(separator: " ", maxSplits: 2).map(String.init)
        return Stall(signature: parts[0], place: parts[1], function: parts[2])
      }
    try #require(stalls.count == 8, "\(child)")
    let (before, after) = (stalls.prefix(4), stalls.suffix(4))
    let functions = try #require(Self.functions[language])
    #expect(before.map(\.function) == functions.0 && after.map(\.function) == functions.1, "\(child)")
    #expect(after.map(\.signature) == before.map(\.signature), "\(child)")
    #expect(Set(before.map(\.signature)).count == 4)
    #expect(zip(before, after).allSatisfy { $0.place != $1.place && $0.place != "nowhere" }, "\(child)")
  }
}
