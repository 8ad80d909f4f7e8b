// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that users of Chapar do not resolve or build what only measuring needs.
let package = Package(
    name: "benchmarks",
    dependencies: [
        .package(name: "chapar", path: ".."),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        // What the programs share: what a process used, and sending through a backend.
        .target(
            name: "BenchSupport",
            dependencies: [
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparHTTP", package: "chapar"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .executableTarget(
            name: "transport-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparHTTP", package: "chapar"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        // The APNs backend, from the public `send` to its outcomes.
        .executableTarget(
            name: "apns-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparAPNs", package: "chapar"),
                .product(name: "ChaparCore", package: "chapar"),
            ]
        ),
        // The FCM backend, likewise.
        .executableTarget(
            name: "fcm-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparFCM", package: "chapar"),
            ]
        ),
        // The RuStore backend, likewise.
        .executableTarget(
            name: "rustore-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparRuStore", package: "chapar"),
            ]
        ),
        // The HMS backend: what a recipient costs in a full batch and alone.
        .executableTarget(
            name: "hms-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparHMS", package: "chapar"),
                .product(name: "ChaparHTTP", package: "chapar"),
                .product(name: "ChaparSandbox", package: "chapar"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        // The Web Push backend: what a message costs beside its encryption.
        .executableTarget(
            name: "webpush-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparWebPush", package: "chapar"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        // What a byte of JSON costs in small and in large documents.
        .executableTarget(
            name: "json-bench",
            dependencies: ["BenchSupport", .product(name: "ChaparCore", package: "chapar")]
        ),
        // What a store costs: rows per second and CPU for each row.
        .executableTarget(
            name: "store-bench",
            dependencies: [
                "BenchSupport",
                .product(name: "ChaparComposition", package: "chapar"),
                .product(name: "ChaparCore", package: "chapar"),
                .product(name: "ChaparQueue", package: "chapar"),
                .product(name: "ChaparStorePostgres", package: "chapar"),
                .product(name: "ChaparStoreSQLite", package: "chapar"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
