// swift-tools-version: 6.2.3
import PackageDescription

/// Every target is held to the same rules: Swift 6 language mode, explicit existentials, imports that do not leak.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")

// What a product of another package is needed for. SwiftPM fetches no package whose products stand under traits that are off
// alone, so each of them has its condition in every target that names it, those of the tests as well.
let http1: TargetDependencyCondition? = .when(traits: ["HTTP1"])
let services: TargetDependencyCondition? = .when(traits: ["Services"])
let gateway: TargetDependencyCondition? = .when(traits: ["Gateway"])
let commands: TargetDependencyCondition? = .when(traits: ["Commands"])

/// The commit for `chapar --version`, which `make release` gives.
///
/// Not `Context.gitInformation`: its answer is kept until this file changes, so the program would name an older commit.
let commit: [CSetting] =
    Context.environment["CHAPAR_COMMIT"].map { $0.isEmpty ? [] : [.define("CHAPAR_COMMIT", to: "\"\($0)\"")] } ?? []

/// The target of a plugin: a folder under Plugins/, and what it needs besides the core.
func plugin(_ name: String, at folder: String, _ more: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(
        name: name,
        dependencies: ["PushCore"] + more,
        path: "Plugins/\(folder)",
        exclude: exclude,
        swiftSettings: strict
    )
}

/// The tests of plugins: what all of them need, the plugin, and more.
func pluginTests(_ name: String, _ more: [Target.Dependency]) -> Target {
    .testTarget(
        name: name,
        dependencies: ["PushHTTP", "PushCore", "PushOAuth", "PushTesting", "PushSandbox", logging] + more,
        swiftSettings: strict
    )
}

let package = Package(
    name: "chapar",
    // Mutex is of macOS 15. No machine of the project's runs macOS: what can be seen from Linux is kept portable, no more.
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "chapar", targets: ["chapar"]),
        .library(name: "PushCore", targets: ["PushCore"]),
        .library(name: "PushJSON", targets: ["PushJSON"]),
        .library(name: "PushComposition", targets: ["PushComposition"]),
        .library(name: "PushObservability", targets: ["PushObservability"]),
        .library(name: "PushOAuth", targets: ["PushOAuth"]),
        .library(name: "PushQueue", targets: ["PushQueue"]),
        .library(name: "PushModules", targets: ["PushModules"]),
        .library(name: "PushHTTP", targets: ["PushHTTP"]),
        .library(name: "PushAPNs", targets: ["PushAPNs"]),
        .library(name: "PushFCM", targets: ["PushFCM"]),
        .library(name: "PushHMS", targets: ["PushHMS"]),
        .library(name: "PushOneSignal", targets: ["PushOneSignal"]),
        .library(name: "PushOneSignalDevices", targets: ["PushOneSignalDevices"]),
        .library(name: "PushIDPush", targets: ["PushIDPush"]),
        .library(name: "PushIDPushSDK", targets: ["PushIDPushSDK"]),
        .library(name: "PushAltcraft", targets: ["PushAltcraft"]),
        .library(name: "PushAltcraftSDK", targets: ["PushAltcraftSDK"]),
        .library(name: "PushChabok", targets: ["PushChabok"]),
        .library(name: "PushChabokSDK", targets: ["PushChabokSDK"]),
        .library(name: "PushReleaseNotes", targets: ["PushReleaseNotes"]),
        .library(name: "PushReleaseNotesCommand", targets: ["PushReleaseNotesCommand"]),
        .library(name: "PushService", targets: ["PushService"]),
        .library(name: "PushGateway", targets: ["PushGateway"]),
        .library(name: "PushCommands", targets: ["PushCommands"]),
        .library(name: "PushStoreSQLite", targets: ["PushStoreSQLite"]),
        .library(name: "PushStorePostgres", targets: ["PushStorePostgres"]),
        .library(name: "PushSandbox", targets: ["PushSandbox"]),
        .library(name: "PushTesting", targets: ["PushTesting"]),
    ],
    traits: [
        // Levels: each has the ones before it, but Services is without HTTP1. Without any there are plugins and HTTP/2.
        .default(enabledTraits: ["Postgres"]),
        .trait(name: "HTTP1", description: "PushHTTP speaks HTTP/1.1 too, as every platform but Apple needs it."),
        .trait(
            name: "Services",
            description: "PushClient is a service of swift-service-lifecycle; metrics and spans of what is sent."
        ),
        .trait(
            name: "Gateway",
            description: "The gateway and its embedded store as libraries.",
            enabledTraits: ["HTTP1", "Services"]
        ),
        .trait(name: "Commands", description: "The commands of the program.", enabledTraits: ["Gateway"]),
        .trait(
            name: "Postgres",
            description: "The commands can open a PostgreSQL store; links libpq.",
            enabledTraits: ["Commands"]
        ),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.1"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // JSON and RFC 3339, of which everything that passes through consists.
        .target(name: "PushJSON", swiftSettings: strict),

        // What the author of a plugin knows: the model, PushBackend and its abilities, the registry, configuration, transport.
        .target(
            name: "PushCore",
            dependencies: [
                "PushJSON",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // Several backends as one: the plan and its rules, in code and in the gateway.
        .target(name: "PushComposition", dependencies: ["PushCore"], swiftSettings: strict),

        // Metrics and spans of what backends are handed.
        .target(
            name: "PushObservability",
            dependencies: [
                "PushCore", "PushComposition",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: services),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: services),
            ],
            swiftSettings: strict
        ),

        // OAuth 2 with rotating refresh tokens.
        .target(
            name: "PushOAuth",
            dependencies: [
                "PushCore",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The contract of durable work: notifications, devices, outbox.
        .target(name: "PushQueue", dependencies: ["PushComposition", "PushCore"], swiftSettings: strict),

        // What adds routes to the gateway.
        .target(name: "PushModules", dependencies: ["PushCore", "PushQueue"], swiftSettings: strict),

        // What every plugin sends through.
        .systemLibrary(
            name: "CNghttp2",
            pkgConfig: "libnghttp2",
            providers: [.apt(["libnghttp2-dev"]), .brew(["libnghttp2"])]
        ),
        .target(
            name: "PushHTTP",
            dependencies: [
                "PushCore", "CNghttp2",
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: http1),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: http1),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: strict
        ),

        // The platforms, one folder each (Plugins/README.md); SDK folders are the faces of vendors' client libraries.
        plugin(
            "PushAPNs",
            at: "APNs",
            [
                "PushOAuth", crypto, logging, .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        plugin("PushFCM", at: "FCM", ["PushOAuth", cryptoExtras, logging]),
        plugin("PushHMS", at: "HMS", ["PushOAuth", crypto, cryptoExtras, logging]),
        plugin("PushOneSignal", at: "OneSignal", ["PushOneSignalDevices", "PushOAuth", crypto, logging]),
        plugin("PushIDPush", at: "IDPush", ["PushOneSignalDevices", "PushOAuth", logging], exclude: ["SDK"]),
        plugin("PushIDPushSDK", at: "IDPush/SDK", ["PushIDPush"]),
        plugin(
            "PushAltcraft",
            at: "Altcraft",
            ["PushComposition", "PushOAuth", crypto, cryptoExtras, logging],
            exclude: ["SDK"]
        ),
        plugin("PushAltcraftSDK", at: "Altcraft/SDK", ["PushAltcraft", "PushComposition", logging]),
        plugin("PushChabok", at: "Chabok", ["PushOAuth"], exclude: ["SDK"]),
        plugin("PushChabokSDK", at: "Chabok/SDK", ["PushChabok"]),
        plugin("PushReleaseNotes", at: "ReleaseNotes", ["PushQueue", "PushModules", logging], exclude: ["Command"]),
        plugin("PushService", at: "Service", ["PushOAuth", crypto]),
        // What OneSignal and IDPush share: the devices that OneSignal keeps. Neither plugin imports the other.
        .target(name: "PushOneSignalDevices", dependencies: ["PushCore", crypto], swiftSettings: strict),

        // The stores.
        .target(
            name: "PushStoreSQLite",
            dependencies: [
                "PushCore", "PushComposition", "PushQueue",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(
            name: "PushStorePostgres",
            dependencies: [
                "CPostgres", "PushCore", "PushComposition", "PushQueue",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The gateway as a library.
        .target(
            name: "PushGateway",
            dependencies: [
                "PushCore", "PushComposition", "PushObservability", "PushOAuth", "PushQueue", "PushModules",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: gateway),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "Yams", package: "Yams", condition: gateway),
            ],
            resources: [
                .embedInCode("Dashboard/dashboard.html"), .embedInCode("Dashboard/dashboard.css"),
                .embedInCode("Dashboard/dashboard.js"), .embedInCode("Dashboard/dashboard-texts.json"),
                .embedInCode("OpenAPI/openapi.json"),
            ],
            swiftSettings: strict
        ),

        // Simulators, and what tests of plugins and stores share.
        .target(
            name: "PushSandbox",
            dependencies: [
                "PushCore", "PushOAuth", "CNghttp2",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "PushTesting",
            dependencies: [
                "PushCore", "PushComposition", "PushQueue", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The allocator, and what Swift's Glibc module leaves out: prctl.
        .systemLibrary(
            name: "CJemalloc",
            pkgConfig: "jemalloc",
            providers: [.apt(["libjemalloc-dev"]), .brew(["jemalloc"])]
        ),
        .systemLibrary(name: "CProcess"),

        // The command line as a library: all commands, for the platforms that a program gives it.
        .target(
            name: "PushCommands",
            dependencies: [
                "CJemalloc", "CProcess", "PushCore", "PushComposition", "PushQueue", "PushModules",
                "PushHTTP", "PushGateway", "PushStoreSQLite", "PushSandbox",
                .target(name: "PushStorePostgres", condition: .when(traits: ["Postgres"])),
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: gateway),
            ],
            resources: [.embedInCode("Plugin/swift.template"), .embedInCode("Plugin/python.template")],
            swiftSettings: strict
        ),
        plugin(
            "PushReleaseNotesCommand",
            at: "ReleaseNotes/Command",
            [
                "PushReleaseNotes", "PushCommands",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
            ]
        ),

        // The program: the one place that lists the platforms; and the commit that it was built from.
        .target(name: "CBuild", cSettings: commit),
        .executableTarget(
            name: "chapar",
            dependencies: [
                "CBuild", "PushCommands", "PushAPNs", "PushFCM", "PushHMS", "PushOneSignal", "PushIDPush",
                "PushAltcraft",
                "PushChabok",
                "PushReleaseNotes", "PushReleaseNotesCommand", "PushService",
            ],
            swiftSettings: strict
        ),

        // Small programs for the reader; built with everything else, so that they cannot grow old.
        .executableTarget(
            name: "ComposeInCode",
            dependencies: [
                "PushCore", "PushComposition", "PushObservability", "PushOAuth", "PushHTTP", "PushAPNs", "PushFCM",
                "PushHMS",
                "PushOneSignal", "PushIDPush", "PushIDPushSDK", "PushAltcraft", "PushAltcraftSDK", "PushChabok",
                "PushReleaseNotes", "PushSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/ComposeInCode",
            swiftSettings: strict
        ),
        // A Hummingbird application with a gateway within.
        .executableTarget(
            name: "Embedded",
            dependencies: [
                "PushCore", "PushHTTP", "PushAPNs", "PushGateway", "PushQueue", "PushStoreSQLite", "PushSandbox",
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Embedded",
            swiftSettings: strict
        ),
        // A plugin with batches and a webhook, which its program holds to the kit.
        .executableTarget(
            name: "BatchPlugin",
            dependencies: [
                "PushCore", "PushHTTP", "PushSandbox", "PushTesting",
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            path: "Examples/BatchPlugin",
            swiftSettings: strict
        ),
        // The samples of the documents that Chapar comes from.
        .executableTarget(
            name: "SeedsExample",
            dependencies: [
                "PushCore", "PushOAuth", "PushHTTP", "PushIDPush", "PushIDPushSDK", "PushAltcraft", "PushAltcraftSDK",
                "PushChabok", "PushChabokSDK", "PushReleaseNotes", "PushSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Seeds",
            swiftSettings: strict
        ),

        .testTarget(
            name: "PushJSONTests",
            dependencies: ["PushCore", "PushJSON", "PushTesting"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushCoreTests",
            dependencies: [
                "PushCore", "PushComposition", "PushQueue", "PushHTTP", "PushTesting", "PushSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushCompositionTests",
            dependencies: [
                "PushComposition", "PushCore", "PushQueue", "PushTesting",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushObservabilityTests",
            dependencies: [
                "PushObservability", "PushHTTP", "PushCore", "PushTesting",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: services),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: services),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics", condition: services),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle", condition: services),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: services),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushOAuthTests",
            dependencies: [
                "PushCore", "PushOAuth", "PushHTTP", "PushTesting", "PushSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushHTTPTests",
            dependencies: [
                "PushHTTP", "PushCore", "PushTesting", "CNghttp2",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: strict
        ),
        pluginTests("PushAPNsTests", ["PushAPNs", "PushComposition", crypto]),
        pluginTests("PushFCMTests", ["PushFCM", cryptoExtras]),
        pluginTests("PushHMSTests", ["PushHMS", crypto]),
        pluginTests("PushOneSignalTests", ["PushOneSignal", "PushOneSignalDevices", "OneSignalBench"]),
        pluginTests(
            "PushIDPushTests",
            ["PushIDPush", "PushIDPushSDK", "PushOneSignal", "PushOneSignalDevices", "OneSignalBench"]
        ),
        // The simulator that the tests of OneSignal and IDPush share.
        .target(
            name: "OneSignalBench",
            dependencies: ["PushHTTP", "PushCore", "PushTesting", "PushSandbox", logging],
            path: "Tests/OneSignalBench",
            swiftSettings: strict
        ),
        pluginTests(
            "PushAltcraftTests",
            ["PushAltcraft", "PushAltcraftSDK", "PushAPNs", "PushFCM", "PushHMS", crypto, cryptoExtras]
        ),
        pluginTests("PushServiceTests", ["PushService"]),
        pluginTests("PushChabokTests", ["PushChabok", "PushChabokSDK"]),
        pluginTests("PushReleaseNotesTests", ["PushReleaseNotes", "PushModules", "PushQueue"]),
        .testTarget(
            name: "PushStoreSQLiteTests",
            dependencies: [
                "PushStoreSQLite", "PushCore", "PushComposition", "PushQueue", "PushTesting",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushStorePostgresTests",
            dependencies: [
                "PushStorePostgres", "PushStoreSQLite", "PushCore", "PushComposition", "PushQueue", "PushTesting",
                "PushSandbox", "CPostgres", .product(name: "Logging", package: "swift-log"),
            ],
            exclude: ["Schemas"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushSandboxTests",
            dependencies: [
                "PushSandbox", "PushHTTP", "PushCore", "PushTesting", "CNghttp2",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            exclude: ["Fixtures"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PushGatewayTests",
            dependencies: [
                "PushGateway", "PushCore", "PushComposition", "PushOAuth", "PushQueue", "PushModules", "PushTesting",
                "PushStoreSQLite", "PushSandbox",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: gateway),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdTesting", package: "hummingbird", condition: gateway),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: gateway),
            ],
            exclude: ["Configuration/Fixtures"],
            swiftSettings: strict
        ),
        // The whole gateway under a seed: see docs/Simulation.md.
        .target(name: "SimulationHooks", path: "Tests/Simulation/Hooks"),
        .executableTarget(
            name: "ChaparSimulation",
            dependencies: [
                "PushCore", "PushComposition", "PushQueue", "PushGateway", "PushStoreSQLite", "PushTesting",
                "SimulationDisk",
                "SimulationHooks",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle", condition: gateway),
            ],
            path: "Tests/Simulation/Program",
            swiftSettings: strict
        ),
        // What reads foreign bytes, one function each: for the fuzz binary, and for the test that replays the corpora.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "PushCore", "PushComposition", "PushQueue", "PushHTTP", "PushGateway", "PushTesting", "PushAPNs",
                "PushFCM",
                "PushHMS", "PushOneSignal", "PushIDPush", "PushChabok", "PushAltcraft", "PushService",
                "PushStoreSQLite",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Tests/Fuzz/Targets",
            swiftSettings: strict
        ),
        .testTarget(
            name: "FuzzTests",
            dependencies: ["FuzzTargets"],
            path: "Tests/Fuzz/Replay",
            swiftSettings: strict
        ),
        // A disk in memory under SQLite that fails and crashes by a seed: for the simulation.
        .target(
            name: "SimulationDisk",
            dependencies: ["PushCore", .product(name: "GRDBSQLite", package: "GRDB.swift", condition: gateway)],
            path: "Tests/Simulation/Disk",
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulationDiskTests",
            dependencies: [
                "SimulationDisk", "PushStoreSQLite", "PushCore", "PushComposition", "PushQueue", "PushTesting",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparTests",
            dependencies: [
                "chapar", "PushCommands", "PushGateway", "PushAPNs", "PushFCM", "PushHMS", "PushSandbox", "PushCore",
                "PushComposition",
                "PushTesting", .target(name: "PushStorePostgres", condition: .when(traits: ["Postgres"])),
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
    ],
    swiftLanguageModes: [.v6]
)

// The fuzz binary, built on request only (`.ci/fuzz`): it wants every module instrumented, and links clang's libFuzzer, whose
// path the variable gives.
if let libFuzzer = Context.environment["CHAPAR_FUZZING"] {
    package.targets.append(
        .executableTarget(
            name: "ChaparFuzz",
            dependencies: ["FuzzTargets"],
            path: "Tests/Fuzz/Program",
            swiftSettings: strict,
            linkerSettings: [.unsafeFlags([libFuzzer]), .linkedLibrary("stdc++")]
        )
    )
}
