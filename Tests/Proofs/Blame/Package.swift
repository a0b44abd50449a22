// swift-tools-version: 6.1
import PackageDescription

// The program of `tools/prove blame` as a separate package, which depends on Culprit and is built like a service.
// `Tests/Proofs/Blame/build` builds it.

/// A dependency that the package manager checks out: `build` makes a repository of `Retries/` and passes its path.
let retries = Context.environment["BLAME_RETRIES"] ?? "/repository/of/retries"
let revision = Context.environment["BLAME_RETRIES_REVISION"] ?? String(repeating: "0", count: 40)

let package = Package(
  name: "blame-trials",
  dependencies: [.package(name: "culprit", path: "../../.."), .package(url: "file://\(retries)", revision: revision)],
  targets: [
    .executableTarget(
      name: "blame-trials",
      dependencies: [
        .product(name: "Culprit", package: "culprit"), .product(name: "Retries", package: "retries"), "Catalogue",
        "Judges", "NativeWork", "SplitMix",
      ],
      path: "Program"
    ),
    .target(name: "Catalogue", path: "Catalogue"),
    .target(name: "NativeWork", path: "Native"),
    // Symbolic links to files that the main package shares with its tests.
    .target(
      name: "Judges",
      dependencies: [.product(name: "Culprit", package: "culprit")],
      path: "Judges",
      sources: ["BlameJudgement.swift"]
    ),
    .target(name: "SplitMix", path: "SplitMix"),
  ],
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)
