// swift-tools-version: 6.1
import PackageDescription

/// Whether what is built watches: on Linux with glibc. Elsewhere `Culprit` has the same interface and does nothing. A manifest
/// only sees the machine that builds: whoever builds for another one sets BUILD_CULPRIT_FOR to linux or elsewhere.
#if os(Linux)
  let buildsOnLinux = true
#else
  let buildsOnLinux = false
#endif
let asked = Context.environment["BUILD_CULPRIT_FOR"] ?? ""
let wanted = asked.isEmpty ? nil : asked
let isElsewhere = wanted.map { $0 == "elsewhere" } ?? !buildsOnLinux
/// SwiftPM says in a line what a target lacks; a manifest that ends itself would be told with all that the compiler knows of it.
let refusal: [Target.Dependency] =
  [nil, "linux", "elsewhere"].contains(wanted)
  ? []
  : [.byName(name: "BUILD_CULPRIT_FOR must be linux or elsewhere, not \(asked)")]

/// What every platform has: what was observed, who is to blame, and what readers get.
let everywhere: [Target] = [
  .target(name: "CulpritStallRecord", dependencies: refusal, path: "Sources/StallRecord"),
  .target(name: "CulpritBlame", dependencies: ["CulpritStallRecord"], path: "Sources/Blame"),
  .target(name: "CulpritReports", dependencies: ["CulpritStallRecord", "CulpritBlame"], path: "Sources/Reports"),
]

/// What a service imports where nothing is watched.
let elsewhere: [Target] = [
  .target(
    name: "Culprit",
    dependencies: ["CulpritReports", "CulpritStallRecord"],
    sources: ["Elsewhere", "Values", "API/AsyncForms.swift", "API/Stalls.swift"],
    // On Linux it refuses to be built unless it was asked for.
    swiftSettings: wanted == nil ? [] : [.define("BUILT_FOR_ELSEWHERE")],
    // Rounding: nothing here imports the C library, which would link it.
    linkerSettings: [.linkedLibrary("m", .when(platforms: [.linux, .android]))]
  )
]

/// What a service links. Names begin with Culprit or CCulprit: those of all packages of a build are one space.
let product: [Target] = [
  // The ground: clocks, waiting, the process's own threads, memory and modules.
  .target(name: "CCulpritLinux", path: "CSupport/CLinux", linkerSettings: [.linkedLibrary("dl")]),
  // A copied stack in, frames out.
  .target(
    name: "CCulpritUnwind",
    path: "CSupport/CUnwind",
    cSettings: [.headerSearchPath(".")],
    linkerSettings: [.linkedLibrary("dl")]
  ),
  // How a process ends: abort, crash notes, SIGTERM, systemd's socket, processor times.
  .target(name: "CCulpritProcess", dependencies: ["CCulpritLinux"], path: "CSupport/CProcess"),
  // The observing path, in C: target slots, threads, capture.
  .target(
    name: "CCulpritObserver",
    dependencies: ["CCulpritLinux", "CCulpritProcess", "CCulpritUnwind"],
    path: "CSupport/CObserver"
  ),
  // Run loops, without making a service link Foundation that does not already.
  .target(name: "CCulpritRunLoop", path: "CSupport/CRunLoop"),
  .systemLibrary(name: "CCulpritZlib", path: "CSupport/CZlib", providers: [.apt(["zlib1g-dev"])]),

  // The rest of the offline half: names for what was observed, and what runs of a service leave in a directory.
  .target(
    name: "CulpritSymbols",
    dependencies: ["CulpritStallRecord", "CCulpritLinux", "CCulpritUnwind", "CCulpritZlib"],
    path: "Sources/Symbols",
    linkerSettings: [.linkedLibrary("stdc++")]
  ),
  .target(name: "CulpritBlackBox", dependencies: ["CulpritStallRecord"], path: "Sources/BlackBox"),

  // What a service imports.
  .target(
    name: "Culprit",
    dependencies: [
      "CCulpritLinux", "CCulpritObserver", "CCulpritProcess", "CCulpritRunLoop", "CCulpritUnwind", "CulpritBlackBox",
      "CulpritBlame", "CulpritReports", "CulpritStallRecord", "CulpritSymbols",
    ],
    exclude: ["Elsewhere"]
  ),
]

/// What a user runs. The target of the command `culprit` is called otherwise than the module `Culprit` where case does not
/// count, too.
let commands: [Target] = [
  .target(name: "CulpritOptions", dependencies: ["CulpritStallRecord"], path: "Sources/Options"),
  // Many stalls: counted, compared, and as rows for engines.
  .target(name: "CulpritCounting", dependencies: ["CulpritReports", "CulpritStallRecord"], path: "Sources/Counting"),
  .target(
    name: "CulpritExports",
    dependencies: ["CCulpritZlib", "CulpritBlame", "CulpritStallRecord"],
    path: "Sources/Exports"
  ),
  // Reports to look at in a browser.
  .target(
    name: "CulpritPages",
    dependencies: ["CulpritBlame", "CulpritExports", "CulpritReports", "CulpritStallRecord"],
    path: "Sources/Pages",
    resources: [.embedInCode("Web")]
  ),
  .executableTarget(
    name: "CulpritCommand",
    dependencies: [
      "CCulpritLinux", "CulpritBlackBox", "CulpritBlame", "CulpritCounting", "CulpritExports", "CulpritOptions",
      "CulpritPages", "CulpritReports",
      "CulpritStallRecord", "CulpritSymbols",
    ],
    path: "tools/culprit"
  ),
  .target(name: "ExampleServer", dependencies: ["CulpritOptions"], path: "tools/Examples/Server"),
  .executableTarget(
    name: "example-service",
    dependencies: ["Culprit", "CulpritOptions", "ExampleServer"],
    path: "tools/Examples/Service"
  ),
  .executableTarget(
    name: "example-service-unwatched",
    dependencies: ["CulpritOptions", "ExampleServer"],
    path: "tools/Examples/Unwatched"
  ),
]

/// Tests, and the libraries that they share.
let tests: [Target] =
  [
    .testTarget(name: "CLinuxTests", dependencies: ["CCulpritLinux", "TestWorkloads"]),
    .testTarget(name: "CProcessTests", dependencies: ["CCulpritLinux", "CCulpritProcess"]),
    // Recorded stacks (Tests/Fixtures), of both processor architectures.
    .testTarget(name: "CUnwindTests", dependencies: ["CCulpritUnwind", "SplitMix", "TestSupport"]),
    .testTarget(
      name: "CObserverTests",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritStallRecord", "CulpritSymbols",
        "TestSupport", "TestWorkloads",
      ]
    ),
    .testTarget(
      name: "StallRecordTests",
      dependencies: ["CulpritStallRecord", "SampleRecordings"],
      exclude: ["Golden"]
    ),
    // Another reader of ELF and DWARF, which tests compare ours with.
    .systemLibrary(name: "CCulpritElf", path: "CSupport/CElf", providers: [.apt(["libelf-dev", "libdw-dev"])]),
    .testTarget(
      name: "SymbolsTests",
      dependencies: ["CCulpritElf", "CulpritBlame", "CulpritStallRecord", "CulpritSymbols", "SplitMix", "TestSupport"],
      exclude: ["Findings", "Generated", "Names"]
    ),
    .testTarget(
      name: "BlameTests",
      dependencies: ["CulpritBlame", "CulpritStallRecord", "SampleRecordings", "SplitMix"]
    ),
    .testTarget(
      name: "ReportsTests",
      dependencies: ["CulpritBlame", "CulpritReports", "CulpritStallRecord", "SampleRecordings", "SplitMix"],
      exclude: ["Snapshots"]
    ),
    .testTarget(
      name: "CountingTests",
      dependencies: ["CulpritCounting", "CulpritReports", "CulpritStallRecord", "SampleRecordings", "SplitMix"]
    ),
    .testTarget(
      name: "ExportTests",
      dependencies: [
        "CCulpritZlib", "CulpritBlame", "CulpritExports", "CulpritStallRecord", "SampleRecordings", "SplitMix",
        "TestSupport",
      ],
      exclude: ["Golden"]
    ),
    .testTarget(
      name: "PagesTests",
      dependencies: ["CCulpritZlib", "CulpritPages", "CulpritStallRecord", "SampleRecordings"]
    ),
    .testTarget(
      name: "BlackBoxTests",
      dependencies: ["CulpritBlackBox", "CulpritStallRecord", "FaultyDisks", "SampleRecordings", "TestSupport"]
    ),
    .testTarget(
      name: "CulpritTests",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritProcess", "Culprit", "CulpritBlackBox", "CulpritStallRecord",
        "CulpritSymbols", "FaultyDisks", "SampleRecordings", "SourceLoads", "SplitMix", "TestSupport", "TestWorkloads",
      ],
      exclude: ["Golden"]
    ),
    .testTarget(
      name: "JudgeTests",
      dependencies: [
        "CCulpritUnwind", "Culprit", "CulpritReports", "CulpritStallRecord", "Judges", "SampleRecordings",
        "StackComparison",
      ]
    ),
    .testTarget(
      name: "CommandTests",
      dependencies: ["CulpritBlackBox", "CulpritOptions", "CulpritStallRecord", "SampleRecordings", "TestSupport"],
      exclude: ["Golden"]
    ),
  ]
  + support("Tests/Support")

/// Libraries for tests, test programs and proofs.
func support(_ folder: String) -> [Target] {
  [
    .target(
      name: "TestSupport",
      dependencies: ["ChildProcesses", "CulpritStallRecord", "CulpritSymbols", "SimulatedClock"],
      path: "\(folder)/TestSupport"
    ),
    .target(name: "TestWorkloads", path: "\(folder)/Workloads"),
    // Time that passes only when a test lets it.
    .target(name: "CSimulatedClock", dependencies: ["CCulpritLinux"], path: "\(folder)/SimulatedClock/c"),
    .target(
      name: "SimulatedClock",
      dependencies: ["CCulpritObserver", "CSimulatedClock"],
      path: "\(folder)/SimulatedClock/swift"
    ),
    // Stalls for exports, and builders of made-up stalls.
    .target(
      name: "SampleRecordings",
      dependencies: ["CulpritStallRecord"],
      path: "\(folder)/SampleRecordings"
    ),
    // Programs that are started without what their starter has by chance: signals blocked and ignored, descriptors.
    .target(name: "CSpawning", path: "\(folder)/ChildProcesses/c"),
    .target(name: "ChildProcesses", dependencies: ["CSpawning"], path: "\(folder)/ChildProcesses/swift"),
    // Pseudo-random numbers from a seed.
    .target(name: "SplitMix", path: "\(folder)/SplitMix"),
    // Decides whether reports and stacks are right: used by proofs, and tested with made-up reports.
    .target(
      name: "Judges",
      dependencies: ["Culprit", "CulpritOptions"],
      path: "\(folder)/Judges"
    ),
    .target(name: "StackComparison", dependencies: ["CCulpritUnwind"], path: "\(folder)/StackComparison"),
    // Work that tests and proofs watch.
    .target(name: "SourceLoads", dependencies: ["CCulpritObserver"], path: "\(folder)/SourceLoads"),
    // File systems that break while somebody writes to them, and services that do.
    .target(name: "FaultyDisks", dependencies: ["ChildProcesses"], path: "\(folder)/FaultyDisks"),
    // A disk that never answers.
    .target(name: "StuckDisk", path: "\(folder)/StuckDisk"),
    // What the kernel holds up threads with.
    .target(name: "KernelWaits", path: "\(folder)/KernelWaits"),
    // An allocator and locks that count, in front of the C library's.
    .target(name: "CountedCalls", path: "\(folder)/CountedCalls", linkerSettings: [.linkedLibrary("dl")]),
  ]
}

/// Programs that tests start and observe from outside.
func processes(_ folder: String) -> [Target] {
  [
    // Watches stalls in a process that lacks something, or shares it with somebody.
    .executableTarget(
      name: "restricted-process",
      dependencies: ["CCulpritObserver", "Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "\(folder)/Restricted"
    ),
    // Is observed while its calls of the allocator and of locks are counted.
    .executableTarget(
      name: "counted-process",
      dependencies: ["CountedCalls", "Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "\(folder)/Counted"
    ),
    // Ends in every way, and says at its next launch how it ended.
    .executableTarget(
      name: "blackbox-process",
      dependencies: [
        "Culprit", "CulpritBlackBox", "CulpritBlame", "CulpritStallRecord", "SourceLoads", "TestWorkloads",
      ],
      path: "\(folder)/BlackBox"
    ),
    // A process for tests of the environment, signals, sockets, forks, closed descriptors, restarts and process exit.
    .executableTarget(
      name: "policy-process",
      dependencies: [
        "CCulpritLinux", "Culprit", "CulpritStallRecord", "SimulatedClock", "StuckDisk", "TestWorkloads",
      ],
      path: "\(folder)/Policy"
    ),
    // A process whose main thread waits for what another thread holds.
    .executableTarget(
      name: "waiting-process",
      dependencies: ["CCulpritLinux", "Culprit", "SimulatedClock"],
      path: "\(folder)/Waiting"
    ),
    // A service whose threads the kernel holds up.
    .executableTarget(
      name: "held-up-process",
      dependencies: ["Culprit", "CulpritBlame", "CulpritStallRecord", "KernelWaits"],
      path: "\(folder)/HeldUp"
    ),
    // Stalls while locks are held.
    .executableTarget(
      name: "stalling-process",
      dependencies: ["Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "\(folder)/Stalling"
    ),
  ]
}

/// Programs that `tools/prove` runs.
func proofs(_ folder: String) -> [Target] {
  [
    .executableTarget(
      name: "culprit-bench",
      dependencies: [
        "BenchmarkPeers", "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "ChildProcesses", "Culprit",
        "CulpritOptions", "CulpritStallRecord", "CulpritSymbols", "Judges", "SourceLoads", "SplitMix",
      ],
      path: "\(folder)/Benchmarks/Program"
    ),
    // Starts a program and reports its processor time and memory.
    .executableTarget(name: "bench-launcher", path: "\(folder)/Benchmarks/Launcher"),
    // What the benchmarks observe, and other ways to do it.
    .target(name: "BenchmarkPeers", path: "\(folder)/Benchmarks/Peers", linkerSettings: [.linkedLibrary("dl")]),
    .executableTarget(
      name: "culprit-soak",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritBlackBox", "CulpritOptions",
        "CulpritStallRecord", "FaultyDisks", "Judges", "SoakCallers", "SourceLoads",
      ],
      path: "\(folder)/Soaks/Program"
    ),
    // Threads whose every system call tells whether something disturbed it, and a program that observes them.
    .target(name: "SoakCallers", path: "\(folder)/Soaks/Callers"),
    // Stalls with known culprits. `Tests/Proofs/Blame/build` builds them as a package of their own, too.
    .executableTarget(
      name: "blame-trials",
      dependencies: ["Catalogue", "Culprit", "Judges", "NativeWork", "Retries", "SplitMix"],
      path: "\(folder)/Blame/Program"
    ),
    .target(name: "Catalogue", path: "\(folder)/Blame/Catalogue"),
    .target(name: "NativeWork", path: "\(folder)/Blame/Native"),
    .target(name: "Retries", path: "\(folder)/Blame/Retries/Sources/Retries"),
    // Tasks that hold threads of Swift's pool, and such as do not; and as many threads as are wanted.
    .executableTarget(
      name: "tasks-process",
      dependencies: ["Culprit", "Judges", "Processors", "SplitMix"],
      path: "\(folder)/Tasks/Program"
    ),
    .target(name: "Processors", path: "\(folder)/Tasks/Processors", linkerSettings: [.linkedLibrary("dl")]),
    // Loops that stall while many requests wait.
    .executableTarget(
      name: "outage-process",
      dependencies: ["CCulpritLinux", "ChildProcesses", "Culprit", "Judges"],
      path: "\(folder)/Outage/Program"
    ),
    // A year of a service on the simulated clock.
    .executableTarget(
      name: "uptime-process",
      dependencies: ["Culprit", "Judges", "SimulatedClock", "TestWorkloads"],
      path: "\(folder)/Uptime/Program"
    ),
    // Writes sample recordings of any size.
    .executableTarget(
      name: "stall-samples",
      dependencies: ["CulpritOptions", "CulpritStallRecord", "SampleRecordings"],
      path: "\(folder)/Exports/Program"
    ),
    // The stalls of a made-up fleet.
    .executableTarget(
      name: "fleet-stalls",
      dependencies: ["CulpritOptions", "CulpritStallRecord", "SplitMix"],
      path: "\(folder)/Fleet/Program"
    ),
    // Compares its metrics with its own measurements.
    .executableTarget(
      name: "metrics-process",
      dependencies: ["Culprit", "SourceLoads", "TestWorkloads"],
      path: "\(folder)/Metrics/Program"
    ),
    // Stalls whose causes are known, and work in C and C++ for them.
    .executableTarget(
      name: "causes-process",
      dependencies: ["CauseWork", "Culprit", "Judges"],
      path: "\(folder)/Causes/Program"
    ),
    .target(
      name: "CauseWork",
      path: "\(folder)/Causes/Native",
      linkerSettings: [.linkedLibrary("dl"), .linkedLibrary("pthread"), .linkedLibrary("z")]
    ),
  ]
}

/// Programs that only tests and proofs start. A plain `swift build` compiles every target that is not a test, so they are
/// targets only if BUILD_CULPRIT_WITH is `tests` or `proofs`.
let programs: [Target] =
  switch Context.environment["BUILD_CULPRIT_WITH"] {
  case "tests": processes("Tests/Processes")
  case "proofs": processes("Tests/Processes") + proofs("Tests/Proofs")
  default: []
  }

let package = Package(
  name: "culprit",
  // The first that have what it takes: durations, for one.
  platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
  products: [.library(name: "Culprit", targets: ["Culprit"])]
    + (isElsewhere ? [] : [.executable(name: "culprit", targets: ["CulpritCommand"])]),
  targets: everywhere + (isElsewhere ? elsewhere : product + commands + tests + programs),
  swiftLanguageModes: [.v6]
)
