// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "retries",
  products: [.library(name: "Retries", targets: ["Retries"])],
  targets: [.target(name: "Retries")],
  swiftLanguageModes: [.v6]
)
