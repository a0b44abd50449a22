// swift-tools-version: 6.1
import PackageDescription

/// The library watches on Linux with glibc. On other platforms, `Culprit` has the same interface and does nothing. A manifest
/// can only see the building machine: set BUILD_CULPRIT_FOR to linux or elsewhere for a cross-build.
#if os(Linux)
  let buildsOnLinux = true
#else
  let buildsOnLinux = false
#endif
let asked = Context.environment["BUILD_CULPRIT_FOR"] ?? ""
let wanted = asked.isEmpty ? nil : asked
let isElsewhere = wanted.map { $0 == "elsewhere" } ?? !buildsOnLinux
/// SwiftPM reports a missing target in one line. A manifest that exits would be reported with the compiler's output.
let refusal: [Target.Dependency] =
  [nil, "linux", "elsewhere"].contains(wanted)
  ? []
  : [.byName(name: "BUILD_CULPRIT_FOR must be linux or elsewhere, not \(asked)")]

/// Modules for every platform: recordings, blame, reports.
let everywhere: [Target] = [
  .target(name: "CulpritStallRecord", dependencies: refusal, path: "Sources/StallRecord"),
  .target(name: "CulpritBlame", dependencies: ["CulpritStallRecord"], path: "Sources/Blame"),
  .target(name: "CulpritReports", dependencies: ["CulpritStallRecord", "CulpritBlame"], path: "Sources/Reports"),
]

/// The library for platforms without observation.
let elsewhere: [Target] = [
  .target(
    name: "Culprit",
    dependencies: ["CulpritReports", "CulpritStallRecord"],
    sources: ["Elsewhere", "Values", "API/AllPlatforms"],
    // Refuses to be built on Linux unless BUILD_CULPRIT_FOR is set.
    swiftSettings: wanted == nil ? [] : [.define("BUILT_FOR_ELSEWHERE")],
    // For rounding: no import of the C library links it here.
    linkerSettings: [.linkedLibrary("m", .when(platforms: [.linux, .android]))]
  )
]

/// Modules that a service links. Names begin with Culprit or CCulprit, because all packages of a build share one namespace.
let product: [Target] = [
  // Clocks, waiting, the process's threads, memory and modules.
  .target(name: "CCulpritLinux", path: "CSupport/CLinux", linkerSettings: [.linkedLibrary("dl")]),
  // Unwinds a copied stack into frames.
  .target(
    name: "CCulpritUnwind",
    path: "CSupport/CUnwind",
    cSettings: [.headerSearchPath(".")]
  ),
  // Process exit: abort, crash notes, SIGTERM, systemd's socket, CPU times.
  .target(name: "CCulpritProcess", dependencies: ["CCulpritLinux"], path: "CSupport/CProcess"),
  // The observing path, in C: target slots, threads, capture.
  .target(
    name: "CCulpritObserver",
    dependencies: ["CCulpritLinux", "CCulpritProcess", "CCulpritUnwind"],
    path: "CSupport/CObserver"
  ),
  // Run loops, without linking Foundation into a service that does not use it.
  .target(name: "CCulpritRunLoop", path: "CSupport/CRunLoop"),
  .systemLibrary(name: "CCulpritZlib", path: "CSupport/CZlib", providers: [.apt(["zlib1g-dev"])]),

  // The rest of the offline half: symbolization, and the records of runs in a directory.
  .target(
    name: "CulpritSymbols",
    dependencies: ["CulpritStallRecord", "CCulpritLinux", "CCulpritUnwind", "CCulpritZlib"],
    path: "Sources/Symbols",
    linkerSettings: [.linkedLibrary("stdc++")]
  ),
  .target(name: "CulpritBlackBox", dependencies: ["CulpritStallRecord"], path: "Sources/BlackBox"),

  // The library that a service imports.
  .target(
    name: "Culprit",
    dependencies: [
      "CCulpritLinux", "CCulpritObserver", "CCulpritProcess", "CCulpritRunLoop", "CCulpritUnwind", "CulpritBlackBox",
      "CulpritBlame", "CulpritReports", "CulpritStallRecord", "CulpritSymbols",
    ],
    exclude: ["Elsewhere"]
  ),
]

/// Programs for users. The target of the command `culprit` has another name, because file systems can ignore case and the
/// module `Culprit` exists.
let commands: [Target] = [
  .target(name: "CulpritOptions", dependencies: ["CulpritStallRecord"], path: "tools/culprit/Options"),
  // Many stalls: ranks, comparisons, and rows for query engines.
  .target(
    name: "CulpritCounting",
    dependencies: ["CulpritReports", "CulpritStallRecord"],
    path: "tools/culprit/Counting"
  ),
  .target(
    name: "CulpritExports",
    dependencies: ["CCulpritZlib", "CulpritBlame", "CulpritStallRecord"],
    path: "tools/culprit/Exports"
  ),
  // Reports as pages for a browser.
  .target(
    name: "CulpritPages",
    dependencies: ["CulpritBlame", "CulpritExports", "CulpritReports", "CulpritStallRecord"],
    path: "tools/culprit/Pages",
    resources: [.embedInCode("Web")]
  ),
  .executableTarget(
    name: "CulpritCommand",
    dependencies: [
      "CCulpritLinux", "CulpritBlackBox", "CulpritBlame", "CulpritCounting", "CulpritExports", "CulpritOptions",
      "CulpritPages", "CulpritReports",
      "CulpritStallRecord", "CulpritSymbols",
    ],
    path: "tools/culprit/Command"
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
    .testTarget(name: "CUnwindTests", dependencies: ["CCulpritUnwind", "LibunwindOracle", "SplitMix", "TestSupport"]),
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
    // The reference for the ELF and DWARF readers.
    .systemLibrary(name: "CCulpritElf", path: "CSupport/CElf", providers: [.apt(["libelf-dev", "libdw-dev"])]),
    .testTarget(
      name: "SymbolsTests",
      dependencies: [
        "CCulpritElf", "CulpritBlame", "CulpritStallRecord", "CulpritSymbols", "Programs", "SplitMix", "TestSupport",
      ],
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
      dependencies: [
        "Culprit", "CulpritBlackBox", "CulpritBlame", "CulpritOptions", "CulpritReports", "CulpritStallRecord",
        "SampleRecordings", "TestSupport",
      ],
      exclude: ["Golden"]
    ),
  ]
  + support("Tests/Support")

/// Libraries for tests, test programs and proofs.
func support(_ folder: String) -> [Target] {
  [
    .target(
      name: "TestSupport",
      dependencies: ["ChildProcesses", "CulpritStallRecord", "CulpritSymbols", "Programs", "SimulatedClock"],
      path: "\(folder)/TestSupport"
    ),
    .target(name: "TestWorkloads", path: "\(folder)/Workloads"),
    // A clock that tests advance.
    .target(name: "CSimulatedClock", dependencies: ["CCulpritLinux"], path: "\(folder)/SimulatedClock/c"),
    .target(
      name: "SimulatedClock",
      dependencies: ["CCulpritObserver", "CSimulatedClock"],
      path: "\(folder)/SimulatedClock/swift"
    ),
    // Sample recordings, and builders of synthetic stalls.
    .target(
      name: "SampleRecordings",
      dependencies: ["CulpritStallRecord"],
      path: "\(folder)/SampleRecordings"
    ),
    // Starts programs without inherited signal masks, ignored signals and descriptors.
    .target(name: "CSpawning", path: "\(folder)/ChildProcesses/c"),
    .target(name: "ChildProcesses", dependencies: ["CSpawning"], path: "\(folder)/ChildProcesses/swift"),
    // Code shared by programs of tests and proofs: threads, output, files in /proc.
    .target(name: "Programs", path: "\(folder)/Programs"),
    // Pseudo-random numbers from a seed.
    .target(name: "SplitMix", path: "\(folder)/SplitMix"),
    // Judges reports and stacks, for proofs. Tested with synthetic reports.
    .target(
      name: "Judges",
      dependencies: ["Culprit", "CulpritOptions", "Programs"],
      path: "\(folder)/Judges"
    ),
    .target(name: "StackComparison", dependencies: ["CCulpritUnwind"], path: "\(folder)/StackComparison"),
    // Work that tests and proofs watch.
    .target(name: "SourceLoads", dependencies: ["CCulpritObserver", "Programs"], path: "\(folder)/SourceLoads"),
    // File systems that fail during writes, and services that write to them.
    .target(name: "FaultyDisks", dependencies: ["ChildProcesses", "Programs"], path: "\(folder)/FaultyDisks"),
    // A disk without responses.
    .target(name: "StuckDisk", path: "\(folder)/StuckDisk"),
    // Kernel waits that block threads.
    .target(name: "KernelWaits", path: "\(folder)/KernelWaits"),
    // libunwind, the reference for rules of unwind tables.
    .target(
      name: "LibunwindOracle",
      dependencies: ["CCulpritUnwind"],
      path: "\(folder)/LibunwindOracle",
      cSettings: [.headerSearchPath("../../../CSupport/CUnwind")],
      linkerSettings: [.linkedLibrary("dl")]
    ),
    // Counts calls of the C library's allocator and locks.
    .target(name: "CountedCalls", path: "\(folder)/CountedCalls", linkerSettings: [.linkedLibrary("dl")]),
  ]
}

/// Programs that tests start and observe from outside.
func processes(_ folder: String) -> [Target] {
  [
    // Watches stalls in a process with restrictions or shared resources.
    .executableTarget(
      name: "restricted-process",
      dependencies: ["CCulpritLinux", "CCulpritObserver", "Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "\(folder)/Restricted"
    ),
    // A process whose allocator and lock calls are counted during observation.
    .executableTarget(
      name: "counted-process",
      dependencies: ["CountedCalls", "Culprit", "CulpritStallRecord", "Programs", "TestWorkloads"],
      path: "\(folder)/Counted"
    ),
    // Ends in many ways, and reports each ending at its next launch.
    .executableTarget(
      name: "blackbox-process",
      dependencies: [
        "Culprit", "CulpritBlackBox", "CulpritBlame", "CulpritStallRecord", "Programs", "SourceLoads", "TestWorkloads",
      ],
      path: "\(folder)/BlackBox"
    ),
    // A process for tests of the environment, signals, sockets, forks, closed descriptors, restarts and process exit.
    .executableTarget(
      name: "policy-process",
      dependencies: [
        "CCulpritLinux", "Culprit", "CulpritStallRecord", "Programs", "SimulatedClock", "StuckDisk", "TestWorkloads",
      ],
      path: "\(folder)/Policy"
    ),
    // A process whose main thread waits for a resource of another thread.
    .executableTarget(
      name: "waiting-process",
      dependencies: ["CCulpritLinux", "Culprit", "Programs", "SimulatedClock"],
      path: "\(folder)/Waiting"
    ),
    // A service whose threads the kernel blocks.
    .executableTarget(
      name: "held-up-process",
      dependencies: ["Culprit", "CulpritBlame", "CulpritStallRecord", "KernelWaits", "Programs"],
      path: "\(folder)/HeldUp"
    ),
    // Stalls while locks are held.
    .executableTarget(
      name: "stalling-process",
      dependencies: ["Culprit", "CulpritStallRecord", "Programs", "TestWorkloads"],
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
        "CulpritOptions", "CulpritStallRecord", "CulpritSymbols", "FaultyDisks", "Judges", "Programs", "SourceLoads",
        "SplitMix",
      ],
      path: "\(folder)/Benchmarks/Program"
    ),
    // Starts a program and reports its CPU time and memory.
    .executableTarget(name: "bench-launcher", path: "\(folder)/Benchmarks/Launcher"),
    // The subjects of the benchmarks, and alternative implementations.
    .target(name: "BenchmarkPeers", path: "\(folder)/Benchmarks/Peers", linkerSettings: [.linkedLibrary("dl")]),
    .executableTarget(
      name: "culprit-soak",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritBlackBox", "CulpritOptions",
        "CulpritStallRecord", "FaultyDisks", "Judges", "Programs", "SoakCallers", "SourceLoads",
      ],
      path: "\(folder)/Soaks/Program"
    ),
    // Threads that detect disturbances in their system calls, and a program that observes them.
    .target(name: "SoakCallers", path: "\(folder)/Soaks/Callers"),
    // Stalls with known culprits. `Tests/Proofs/Blame/build` also builds them as a separate package.
    .executableTarget(
      name: "blame-trials",
      dependencies: ["Catalogue", "Culprit", "Judges", "NativeWork", "Retries", "SplitMix"],
      path: "\(folder)/Blame/Program"
    ),
    .target(name: "Catalogue", path: "\(folder)/Blame/Catalogue"),
    .target(name: "NativeWork", path: "\(folder)/Blame/Native"),
    .target(name: "Retries", path: "\(folder)/Blame/Retries/Sources/Retries"),
    // Tasks that occupy pool threads and tasks that do not, with a configurable number of threads.
    .executableTarget(
      name: "tasks-process",
      dependencies: ["Culprit", "Judges", "Processors", "Programs", "SplitMix"],
      path: "\(folder)/Tasks/Program"
    ),
    .target(name: "Processors", path: "\(folder)/Tasks/Processors", linkerSettings: [.linkedLibrary("dl")]),
    // Loops that stall while many requests wait.
    .executableTarget(
      name: "outage-process",
      dependencies: ["CCulpritLinux", "ChildProcesses", "Culprit", "Judges", "Programs"],
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
    // The stalls of a simulated fleet.
    .executableTarget(
      name: "fleet-stalls",
      dependencies: ["CulpritOptions", "CulpritStallRecord", "SplitMix"],
      path: "\(folder)/Fleet/Program"
    ),
    // A service that compares its metrics with its own measurements.
    .executableTarget(
      name: "metrics-process",
      dependencies: ["Culprit", "Programs", "SourceLoads", "TestWorkloads"],
      path: "\(folder)/Metrics/Program"
    ),
    // Stalls with known causes, and their work in C and C++.
    .executableTarget(
      name: "causes-process",
      dependencies: ["CauseWork", "Culprit", "Judges", "Programs"],
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
  // The oldest versions with all required types, such as Duration.
  platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
  products: [.library(name: "Culprit", targets: ["Culprit"])]
    + (isElsewhere ? [] : [.executable(name: "culprit", targets: ["CulpritCommand"])]),
  targets: everywhere + (isElsewhere ? elsewhere : product + commands + tests + programs),
  swiftLanguageModes: [.v6]
)
