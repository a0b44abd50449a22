import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct OwnershipTests {
  /// A function of a program built in /src/shop.
  private func frame(
    _ function: String = "f()",
    raw: String? = nil,
    swift: String? = nil,
    at file: String? = nil,
    unit: String? = nil,
    in directory: String = "/src/shop",
    origin: CodeOrigin? = nil,
    module: String = "/opt/shop/shop"
  ) -> ResolvedFrame {
    ResolvedFrame(
      function: function,
      rawName: raw ?? function,
      swiftModule: swift,
      module: module,
      address: .file(FileAddress(0)),
      location: file.map { SourceLocation(file: $0, line: 7) },
      origin: origin ?? unit.map { .unit(CompilationUnit(directory: directory, file: $0)) } ?? .unknown
    )
  }

  @Test(arguments: [
    ("/src/shop/Sources/Shop/Catalog.swift", CodeOwner.own, nil),
    ("Sources/CShop/parse.c", .own, nil),
    ("/src/shop/../core/Sources/Core/Core.swift", .own, nil), ("/src/core/Core.swift", .own, nil),
    ("/src/shop/.build/plugins/outputs/shop/Shop/destination/Generated.swift", .own, nil),
    ("/src/shop/.build/checkouts/swift-nio/Sources/NIOCore/EventLoop.swift", .dependency, "swift-nio"),
    ("/src/shop/.build/index-build/checkouts/swift-nio/Sources/NIOCore/EventLoop.swift", .dependency, "swift-nio"),
    ("/Users/a/DerivedData/Shop/SourcePackages/checkouts/swift-log/Sources/Logging/A.swift", .dependency, "swift-log"),
    ("/scratch/checkouts/swift-nio/Sources/CNIOLLHTTP/c_nio_http.c", .dependency, "swift-nio"),
    ("/src/shop/.build/registry/downloads/apple/swift-nio/2.1.0/Sources/NIOCore/X.swift", .dependency, "swift-nio"),
    ("/root/.cargo/registry/src/index.crates.io-6f17d22bba15001f/serde-1.0.2/src/de.rs", .dependency, "serde-1.0.2"),
    ("/src/shop/build/_deps/fmt-src/include/fmt/core.h", .dependency, "fmt"),
    ("/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_algo.h", .system, nil),
    ("/usr/include/x86_64-linux-gnu/bits/stdlib-bsearch.h", .system, nil),
    ("/opt/swift/usr/lib/clang/21/include/immintrin.h", .system, nil),
    ("/home/build-user/swift/stdlib/public/runtime/HeapObject.cpp", .system, nil),
    ("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/iter/range.rs", .system, nil),
  ])
  func ownersBySourceFile(path: String, owner: CodeOwner, package: String?) {
    let frame = frame(at: path, unit: "/src/shop/Sources/Shop/main.swift")
    #expect(CodeOwner.owner(of: frame) == owner)
    #expect(CodeOwner.package(of: frame) == package)
  }

  /// Only directories below the package root count: the root itself can be inside `checkouts`.
  @Test(arguments: ["/ci/checkouts/shop", "/home/a/.build/checkouts/shop", "/usr/lib/shop"])
  func ignoresLocationOfBuildDirectory(directory: String) {
    func owner(_ path: String) -> CodeOwner {
      CodeOwner.owner(of: frame(at: directory + path, unit: directory + "/Sources/Shop/main.swift", in: directory))
    }
    #expect(owner("/Sources/Shop/Catalog.swift") == .own)
    #expect(owner("/Sources/checkouts/Basket/Basket.swift") == .own)
    #expect(owner("/.build/checkouts/swift-nio/Sources/NIOCore/EventLoop.swift") == .dependency)
  }

  @Test func fallsBackToCompilationUnit() {
    #expect(CodeOwner.owner(of: frame(unit: "/src/shop/.build/checkouts/swift-nio/Sources/A.swift")) == .dependency)
    #expect(CodeOwner.owner(of: frame(at: "<compiler-generated>", unit: "/src/shop/Sources/Shop/A.swift")) == .own)
    #expect(CodeOwner.owner(of: frame(unit: "Sources/CShop/parse.c")) == .own)
  }

  @Test(arguments: ["swift_parse_config", "_dispatch_orders", "CFRunLoopOfOurs", "u_parse_74", "_ZN5swift6ParserC2Ev"])
  func ownsFunctionsWithRuntimeLikeNames(name: String) {
    #expect(CodeOwner.owner(of: frame(name, unit: "/src/shop/Sources/CShop/parse.c")) == .own)
  }

  @Test(arguments: [
    "_ZN5swift9RefCountsINS_13RefCountBitsTILNS_19RefCountInlinednessE1EEEE17doDecrementSlowILNS_16PerformDeinitE1EEEbS3_j",
    "swift_retain", "_swift_release_dealloc", "_dispatch_lane_drain", "dispatch_async", "CFRunLoopRunSpecific",
    "__CFRunLoopRun", "_CFStringHash", "ucol_strcoll_74", "_ZN6icu_748Calendar3setEii", "_ZNSt6thread4joinEv",
    "_ZNKSt8ios_base4failE", "__cxa_throw", "_Unwind_RaiseException",
  ])
  func linkedRuntimeBelongsToSystem(name: String) {
    #expect(CodeOwner.owner(of: frame(name, origin: .undescribed)) == .system)
    // Without any debug information the name decides.
    #expect(CodeOwner.owner(of: frame(name)) == .system)
  }

  @Test(arguments: [
    "swift_parse_config", "dispatch_request", "CFOReport", "u_parse", "unwind_stack", "observer_notify",
  ])
  func distinguishesOwnNamesFromRuntimeNames(name: String) {
    #expect(CodeOwner.owner(of: frame(name)) == .own)
    // A function of an archive without debug information.
    #expect(CodeOwner.owner(of: frame(name, origin: .undescribed)) == .dependency)
  }

  /// The compiler adds witnesses, accessors and helpers to each unit that uses them, without a line.
  @Test func compilerGlueBelongsToSystem() {
    let unit = "/src/shop/Sources/Shop/main.swift"
    #expect(CodeOwner.owner(of: frame(raw: "$s11DequeModule0A0V", swift: "DequeModule", unit: unit)) == .system)
    #expect(CodeOwner.owner(of: frame("__swift_instantiateConcreteTypeFromMangledName", unit: unit)) == .system)
    #expect(CodeOwner.owner(of: frame(raw: "$sSSwxx", swift: "destroy value witness", origin: .undescribed)) == .system)
    // An own function whose first line is unknown.
    #expect(CodeOwner.owner(of: frame(raw: "$s4Shop7CatalogVMa", swift: "Shop", unit: unit)) == .own)
    #expect(CodeOwner.owner(of: frame(raw: "$s4Shop1fyyF", swift: "Shop", at: unit, unit: unit)) == .own)
    #expect(CodeOwner.owner(of: frame(raw: "$sSaMa", swift: "Swift", origin: .undescribed)) == .system)
    #expect(CodeOwner.owner(of: frame(raw: "$sSSIegg_TR", origin: .undescribed)) == .system)
    #expect(CodeOwner.owner(of: frame(raw: "$s4Shop7CatalogVMa", swift: "Shop")) == .own)
  }

  @Test(arguments: [
    "$s4Shop4CartC5totalSivg", "$s4Shop4CartC5totalSivs", "$s4Shop4CartC5totalSivM", "$s4Shop4CartC5totalSivM.resume.0",
    "$s4Shop4CartC2stSivgZ", "$s4Shop4CartC5totalSivpfi", "$s4Shop3KeyV23__derived_struct_equalsySbAC_ACtFZ",
    "$s4Shop3KeyV4hash4intoys6HasherVz_tF", "$s4Shop3KeyV6encode2toys7Encoder_p_tKF",
    "$s4Shop3KeyV4fromACs7Decoder_p_tKcfC", "$s4Shop4KindO8rawValueACSgSS_tcfC",
    "$s4Shop4KindO8rawValueACSgSS_tcfCTf4nd_n", "$s4Shop4CartC5totalSivgZTf4d_n",
    "$s4Shop3KeyV10CodingKeys33_11AB390667C650EA174700611A449AD1LLO11stringValueAFSgSS_tcfC",
  ])
  func synthesizedFunctionsBelongToSystem(symbol: String) {
    let unit = "/src/shop/Sources/Shop/main.swift"
    #expect(CodeOwner.owner(of: frame(raw: symbol, swift: "Shop", unit: unit)) == .system)
    #expect(CodeOwner.owner(of: frame(raw: symbol, swift: "Shop", at: unit, unit: unit)) == .own)
  }

  /// The accessor of a global has the global's line.
  @Test(arguments: ["$s4Shop5ratesSDySSSdGvau", "$s4Shop4CartC5ratesSDySSSdGvauZ"])
  func accessorsOfGlobalsBelongToSystem(symbol: String) {
    let unit = "/src/shop/Sources/Shop/main.swift"
    #expect(CodeOwner.owner(of: frame(raw: symbol, swift: "Shop", at: unit, unit: unit)) == .system)
  }

  @Test(
    arguments: [
      ("runtime.gopark", "/usr/local/go/src/runtime/proc.go", CodeOwner.system), ("runtime.mcall", nil, .system),
      ("runtime.memmove", "/opt/go/src/runtime/memmove_amd64.s", .system),
      ("net/http.(*conn).serve", "/opt/go/src/net/http/server.go", .system), ("net/http.(*conn).serve", nil, .system),
      ("strings.(*Builder).grow", "strings/builder.go", .system),
      ("github.com/lib/pq.(*conn).query", "/root/go/pkg/mod/github.com/lib/pq@v1.10.9/conn.go", .dependency),
      ("main.handle", "/src/shop/main.go", .own), ("example.com/shop/sort.Orders", "/src/shop/sort/orders.go", .own),
      ("sort.constprop.0", "/src/shop/sort.c", .own), ("sort.isra.0", nil, .own),
    ] as [(String, String?, CodeOwner)]
  )
  func ownersOfGoPackages(name: String, file: String?, owner: CodeOwner) {
    #expect(CodeOwner.owner(of: frame(name, at: file, unit: file)) == owner)
  }

  @Test func assignsGlueByModuleOfUnit() {
    func owner(_ module: String, unitOf own: String) -> CodeOwner {
      let unit = CompilationUnit(directory: "/src/shop", file: "/src/shop/Sources/Server/main.swift", swiftModule: own)
      return CodeOwner.owner(of: frame(raw: "$s4Shop4readyyFTm", swift: module, origin: .unit(unit)))
    }
    #expect(owner("Shop", unitOf: "Shop") == .own)
    #expect(owner("DequeModule", unitOf: "Shop") == .system)
    #expect(owner("Server", unitOf: "Shop") == .system)
    let unit = CompilationUnit(directory: "/src/shop", file: "/src/shop/Sources/Shop/main.swift", swiftModule: "Shop")
    var forwarder = frame(raw: "$s4Shop5readyyyFyycfU_TA", swift: "Shop", origin: .unit(unit))
    forwarder.kind = .thunk
    #expect(CodeOwner.owner(of: forwarder) == .system)
  }

  @Test func classifiesEntryPointsSeparately() {
    for name in ["main", "shop_main", "_start"] {
      #expect(CodeOwner.owner(of: frame(name, unit: "/src/shop/Sources/Shop/main.swift")) == .entry)
      #expect(CodeOwner.owner(of: frame(name)) == .entry)
    }
    #expect(CodeOwner.owner(of: frame("worker_main")) == .own)
  }

  @Test(arguments: ["NIOCore", "swift-nio", "/src/shop/.build/checkouts/swift-nio", "/src/shop/.build/checkouts/"])
  func rulesDeclarePackagesOwn(name: String) {
    let frame = frame(
      raw: "$s7NIOCore1fyyF",
      swift: "NIOCore",
      at: "/src/shop/.build/checkouts/swift-nio/Sources/NIOCore/EventLoop.swift",
      unit: "/src/shop/.build/checkouts/swift-nio/Sources/NIOCore/EventLoop.swift"
    )
    #expect(CodeOwner.owner(of: frame) == .dependency)
    #expect(CodeOwner.owner(of: frame, OwnershipRules(own: ["Other", name])) == .own)
    #expect(CodeOwner.owner(of: frame, OwnershipRules(own: ["NIO", "nio", "/src/shop/.build/check"])) == .dependency)
  }

  @Test(arguments: ["libz.so.1", "libz.so", "libz", "z", "/usr/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib"])
  func rulesDeclareLibrariesOwn(name: String) {
    let frame = frame("inflate", module: "/usr/lib/x86_64-linux-gnu/libz.so.1")
    #expect(CodeOwner.owner(of: frame) == .system)
    #expect(CodeOwner.owner(of: frame, OwnershipRules(own: [name])) == .own)
  }

  @Test(arguments: [
    "Lock.lock()", "Lock.lock", "Shop.Lock.lock()", "Shop.Lock.lock", "Lock.*", "Shop.*", "$s4Shop4LockC4lockyyF",
  ])
  func skipsConfiguredWrappers(name: String) {
    let rules = OwnershipRules(wrappers: ["Other.f()", name])
    let file = "/src/shop/Sources/Shop/Lock.swift"
    let lock = frame("Lock.lock()", raw: "$s4Shop4LockC4lockyyF", swift: "Shop", at: file, unit: file)
    #expect(CodeOwner.owner(of: lock) == .own)
    #expect(CodeOwner.owner(of: lock, rules) == .dependency)
    let other = frame("Locker.lock()", raw: "x", swift: "Shops", at: file, unit: file)
    #expect(CodeOwner.owner(of: other, rules) == .own)
  }
}
