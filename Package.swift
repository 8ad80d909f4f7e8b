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
let lifecycle: TargetDependencyCondition? = .when(traits: ["ServiceLifecycleSupport"])
let observability: TargetDependencyCondition? = .when(traits: ["ObservabilitySupport"])
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
        dependencies: ["ChaparCore"] + more,
        path: "Plugins/\(folder)",
        exclude: exclude,
        swiftSettings: strict
    )
}

/// The simulator of a platform: the folder Simulator of its plugin, which knows the kit of simulators and not the plugin.
func simulator(_ name: String, at folder: String, _ more: [Target.Dependency] = []) -> Target {
    plugin(name, at: "\(folder)/Simulator", ["ChaparSimulator"] + more)
}

/// The tests of plugins: what all of them need, the plugin, and more.
func pluginTests(_ name: String, _ more: [Target.Dependency]) -> Target {
    .testTarget(
        name: name,
        dependencies: ["ChaparHTTP", "ChaparCore", "ChaparOAuth", "ChaparTesting", "ChaparSandbox", logging] + more,
        swiftSettings: strict
    )
}

let package = Package(
    name: "chapar",
    // Mutex is of macOS 15. No machine of the project's runs macOS: what can be seen from Linux is kept portable, no more.
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "chapar", targets: ["chapar"]),
        .library(name: "ChaparClient", targets: ["ChaparClient"]),
        .library(name: "ChaparCore", targets: ["ChaparCore"]),
        .library(name: "ChaparJSON", targets: ["ChaparJSON"]),
        .library(name: "ChaparComposition", targets: ["ChaparComposition"]),
        .library(name: "ChaparObservability", targets: ["ChaparObservability"]),
        .library(name: "ChaparOAuth", targets: ["ChaparOAuth"]),
        .library(name: "ChaparQueue", targets: ["ChaparQueue"]),
        .library(name: "ChaparModules", targets: ["ChaparModules"]),
        .library(name: "ChaparHTTP", targets: ["ChaparHTTP"]),
        .library(name: "ChaparAPNs", targets: ["ChaparAPNs"]),
        .library(name: "ChaparFCM", targets: ["ChaparFCM"]),
        .library(name: "ChaparHMS", targets: ["ChaparHMS"]),
        .library(name: "ChaparRuStore", targets: ["ChaparRuStore"]),
        .library(name: "ChaparOneSignal", targets: ["ChaparOneSignal"]),
        .library(name: "ChaparOneSignalDevices", targets: ["ChaparOneSignalDevices"]),
        .library(name: "ChaparIDPush", targets: ["ChaparIDPush"]),
        .library(name: "ChaparIDPushSDK", targets: ["ChaparIDPushSDK"]),
        .library(name: "ChaparAltcraft", targets: ["ChaparAltcraft"]),
        .library(name: "ChaparAltcraftSDK", targets: ["ChaparAltcraftSDK"]),
        .library(name: "ChaparChabok", targets: ["ChaparChabok"]),
        .library(name: "ChaparChabokSDK", targets: ["ChaparChabokSDK"]),
        .library(name: "ChaparGorush", targets: ["ChaparGorush"]),
        .library(name: "ChaparReleaseNotes", targets: ["ChaparReleaseNotes"]),
        .library(name: "ChaparReleaseNotesCommand", targets: ["ChaparReleaseNotesCommand"]),
        .library(name: "ChaparService", targets: ["ChaparService"]),
        .library(name: "ChaparWebPush", targets: ["ChaparWebPush"]),
        .library(name: "ChaparWebPushCommand", targets: ["ChaparWebPushCommand"]),
        .library(name: "ChaparGateway", targets: ["ChaparGateway"]),
        .library(name: "ChaparCommands", targets: ["ChaparCommands"]),
        .library(name: "ChaparStoreSQLite", targets: ["ChaparStoreSQLite"]),
        .library(name: "ChaparStorePostgres", targets: ["ChaparStorePostgres"]),
        .library(name: "ChaparSimulator", targets: ["ChaparSimulator"]),
        .library(name: "ChaparSandbox", targets: ["ChaparSandbox"]),
        .library(name: "ChaparTesting", targets: ["ChaparTesting"]),
        .library(name: "ChaparStoreContract", targets: ["ChaparStoreContract"]),
    ],
    traits: [
        // Levels: Gateway has the ones before it, Commands has Gateway, Postgres has Commands. Without any there are
        // plugins and HTTP/2.
        .default(enabledTraits: ["Postgres"]),
        .trait(name: "HTTP1", description: "ChaparHTTP speaks HTTP/1.1 too, as every platform but Apple needs it."),
        .trait(
            name: "ServiceLifecycleSupport",
            description: "PushClient is a service of swift-service-lifecycle."
        ),
        .trait(
            name: "ObservabilitySupport",
            description: "ChaparObservability: metrics and spans of what is sent."
        ),
        .trait(
            name: "Services",
            description: "The former name of these two.",
            enabledTraits: ["ServiceLifecycleSupport", "ObservabilitySupport"]
        ),
        .trait(
            name: "Gateway",
            description: "The gateway and its embedded store as libraries.",
            enabledTraits: ["HTTP1", "ServiceLifecycleSupport", "ObservabilitySupport"]
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
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // JSON and RFC 3339, of which everything that passes through consists.
        .target(name: "ChaparJSON", swiftSettings: strict),

        // What the author of a plugin knows: the model, PushBackend and its abilities, the registry, configuration, transport.
        .target(
            name: "ChaparCore",
            dependencies: [
                "ChaparJSON",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // Several backends as one: the plan and its rules, in code and in the gateway.
        .target(name: "ChaparComposition", dependencies: ["ChaparCore"], swiftSettings: strict),

        // Metrics and spans of what backends are handed.
        .target(
            name: "ChaparObservability",
            dependencies: [
                "ChaparCore", "ChaparComposition",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: observability),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: observability),
            ],
            swiftSettings: strict
        ),

        // OAuth 2 with rotating refresh tokens.
        .target(
            name: "ChaparOAuth",
            dependencies: [
                "ChaparCore",
                .product(name: "Logging", package: "swift-log"),
            ],
            exclude: ["Simulator"],
            swiftSettings: strict
        ),

        // The contract of durable work: notifications, devices, outbox.
        .target(name: "ChaparQueue", dependencies: ["ChaparComposition", "ChaparCore"], swiftSettings: strict),

        // What adds routes to the gateway.
        .target(name: "ChaparModules", dependencies: ["ChaparCore", "ChaparQueue"], swiftSettings: strict),

        // What every plugin sends through.
        .systemLibrary(
            name: "CChaparNghttp2",
            pkgConfig: "libnghttp2",
            providers: [.apt(["libnghttp2-dev"]), .brew(["libnghttp2"])]
        ),
        .target(
            name: "ChaparHTTP",
            dependencies: [
                "ChaparCore", "CChaparNghttp2",
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: http1),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: http1),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: lifecycle),
            ],
            swiftSettings: strict
        ),

        // What programs that send import beside the platforms.
        .target(
            name: "ChaparClient",
            dependencies: [
                "ChaparHTTP", "ChaparComposition", "ChaparCore",
                .target(name: "ChaparObservability", condition: .when(traits: ["ObservabilitySupport"])),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The platforms, one folder each (Plugins/README.md); SDK folders are the faces of vendors' client libraries.
        plugin(
            "ChaparAPNs",
            at: "APNs",
            [
                "ChaparOAuth", crypto, logging, .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            exclude: ["Simulator"]
        ),
        plugin("ChaparFCM", at: "FCM", ["ChaparOAuth", cryptoExtras, logging], exclude: ["Simulator"]),
        plugin("ChaparHMS", at: "HMS", ["ChaparOAuth", crypto, cryptoExtras, logging], exclude: ["Simulator"]),
        plugin("ChaparRuStore", at: "RuStore", ["ChaparOAuth", logging], exclude: ["Simulator"]),
        plugin(
            "ChaparOneSignal",
            at: "OneSignal",
            ["ChaparOneSignalDevices", "ChaparOAuth", crypto, logging],
            exclude: ["Simulator"]
        ),
        plugin("ChaparIDPush", at: "IDPush", ["ChaparOneSignalDevices", "ChaparOAuth", logging], exclude: ["SDK"]),
        plugin("ChaparIDPushSDK", at: "IDPush/SDK", ["ChaparIDPush"]),
        plugin(
            "ChaparAltcraft",
            at: "Altcraft",
            ["ChaparComposition", "ChaparOAuth", crypto, cryptoExtras, logging],
            exclude: ["SDK", "Simulator"]
        ),
        plugin("ChaparAltcraftSDK", at: "Altcraft/SDK", ["ChaparAltcraft", "ChaparComposition", logging]),
        plugin("ChaparChabok", at: "Chabok", ["ChaparOAuth"], exclude: ["SDK", "Simulator"]),
        plugin("ChaparChabokSDK", at: "Chabok/SDK", ["ChaparChabok"]),
        plugin("ChaparGorush", at: "Gorush", ["ChaparQueue", "ChaparModules"]),
        plugin(
            "ChaparReleaseNotes",
            at: "ReleaseNotes",
            ["ChaparQueue", "ChaparModules", logging],
            exclude: ["Command", "Simulator"]
        ),
        plugin("ChaparService", at: "Service", ["ChaparOAuth", crypto], exclude: ["Simulator"]),
        plugin("ChaparWebPush", at: "WebPush", [crypto], exclude: ["Command", "Simulator"]),
        // What OneSignal and IDPush share: the devices that OneSignal keeps. Neither plugin imports the other.
        .target(name: "ChaparOneSignalDevices", dependencies: ["ChaparCore", crypto], swiftSettings: strict),

        // The stores.
        .target(
            name: "ChaparStoreSQLite",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparQueue",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        .systemLibrary(
            name: "CChaparPostgres",
            pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq"])]
        ),
        .target(
            name: "ChaparStorePostgres",
            dependencies: [
                "CChaparPostgres", "ChaparCore", "ChaparComposition", "ChaparQueue",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),

        // The gateway as a library, in four layers: what is delivered, what is asked, who asks, and the whole.
        .target(
            name: "ChaparDelivery",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparObservability", "ChaparOAuth", "ChaparQueue", "ChaparModules",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: gateway),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "ChaparAPI",
            dependencies: [
                "ChaparDelivery", "ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparModules",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
            ],
            swiftSettings: strict
        ),
        .target(name: "CChaparDocuments"),
        .target(
            name: "ChaparServer",
            dependencies: [
                "CChaparDocuments", "ChaparAPI", "ChaparDelivery", "ChaparCore", "ChaparQueue",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTPCompression", package: "swift-nio-extras", condition: gateway),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            exclude: ["Dashboard", "OpenAPI"],  // CChaparDocuments embeds them.
            swiftSettings: strict
        ),
        .target(
            name: "ChaparGateway",
            dependencies: [
                "ChaparClient", "ChaparServer", "ChaparAPI", "ChaparDelivery", "ChaparCore", "ChaparComposition",
                "ChaparQueue", "ChaparModules",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "Yams", package: "Yams", condition: gateway),
            ],
            swiftSettings: strict
        ),

        // What a simulator is written with: sockets, faults, the calls that control it.
        .target(
            name: "ChaparSimulator",
            dependencies: [
                "ChaparCore", "CChaparNghttp2", crypto,
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
        // The simulators, each beside its plugin. That of OneSignal has IDPush in front of its players.
        simulator(
            "ChaparAPNsSimulator",
            at: "APNs",
            [
                crypto, .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        simulator("ChaparFCMSimulator", at: "FCM", [cryptoExtras]),
        simulator(
            "ChaparHMSSimulator",
            at: "HMS",
            [
                crypto, cryptoExtras, .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        simulator("ChaparRuStoreSimulator", at: "RuStore"),
        simulator("ChaparOneSignalSimulator", at: "OneSignal"),
        simulator("ChaparAltcraftSimulator", at: "Altcraft", [crypto, cryptoExtras]),
        simulator("ChaparChabokSimulator", at: "Chabok"),
        simulator("ChaparServiceSimulator", at: "Service", [crypto]),
        simulator("ChaparReleaseNotesSimulator", at: "ReleaseNotes"),
        simulator("ChaparWebPushSimulator", at: "WebPush", [crypto]),
        .target(
            name: "ChaparOAuthSimulator",
            dependencies: ["ChaparCore", "ChaparOAuth", "ChaparSimulator"],
            path: "Sources/ChaparOAuth/Simulator",
            swiftSettings: strict
        ),
        // All of them together, with the HTTP API that controls them.
        .target(
            name: "ChaparSandbox",
            dependencies: [
                "ChaparClient", "ChaparCore", "ChaparSimulator", "ChaparAPNsSimulator", "ChaparFCMSimulator",
                "ChaparHMSSimulator", "ChaparRuStoreSimulator",
                "ChaparOneSignalSimulator", "ChaparAltcraftSimulator", "ChaparChabokSimulator",
                "ChaparServiceSimulator", "ChaparReleaseNotesSimulator", "ChaparOAuthSimulator",
                "ChaparWebPushSimulator",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        // What tests of plugins and stores share.
        .target(
            name: "ChaparTesting",
            dependencies: ["ChaparCore", "ChaparComposition", .product(name: "Logging", package: "swift-log")],
            swiftSettings: strict
        ),
        // The suites that every store must pass, and a store in memory that passes them.
        .target(
            name: "ChaparStoreContract",
            dependencies: ["ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparTesting"],
            path: "Tests/StoreContract",
            swiftSettings: strict
        ),

        // The allocator, and what Swift's Glibc module leaves out: prctl.
        .systemLibrary(
            name: "CChaparJemalloc",
            pkgConfig: "jemalloc",
            providers: [.apt(["libjemalloc-dev"]), .brew(["jemalloc"])]
        ),
        .systemLibrary(name: "CChaparProcess"),

        // The command line as a library: all commands, for the platforms that a program gives it.
        .target(
            name: "ChaparCommands",
            dependencies: [
                "CChaparDocuments", "CChaparJemalloc", "CChaparProcess", "ChaparCore", "ChaparComposition",
                "ChaparQueue", "ChaparModules",
                "ChaparHTTP", "ChaparGateway", "ChaparStoreSQLite", "ChaparSandbox",
                .target(name: "ChaparStorePostgres", condition: .when(traits: ["Postgres"])),
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: gateway),
            ],
            exclude: ["Plugin/swift.template", "Plugin/python.template"],  // CChaparDocuments embeds them.
            swiftSettings: strict
        ),
        plugin(
            "ChaparReleaseNotesCommand",
            at: "ReleaseNotes/Command",
            [
                "ChaparReleaseNotes", "ChaparCommands",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
            ]
        ),
        plugin(
            "ChaparWebPushCommand",
            at: "WebPush/Command",
            [
                "ChaparWebPush", "ChaparCommands",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commands),
            ]
        ),

        // The program: the one place that lists the platforms; and the commit that it was built from.
        .target(name: "CChaparBuild", cSettings: commit),
        .executableTarget(
            name: "chapar",
            dependencies: [
                "CChaparBuild", "ChaparCommands", "ChaparAPNs", "ChaparFCM", "ChaparHMS", "ChaparOneSignal",
                "ChaparRuStore",
                "ChaparIDPush",
                "ChaparAltcraft",
                "ChaparChabok", "ChaparGorush",
                "ChaparReleaseNotes", "ChaparReleaseNotesCommand", "ChaparService",
                "ChaparWebPush", "ChaparWebPushCommand",
            ],
            swiftSettings: strict
        ),

        // Small programs for the reader; built with everything else, so that they cannot grow old.
        .executableTarget(
            name: "ComposeInCode",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparObservability", "ChaparOAuth", "ChaparHTTP", "ChaparAPNs",
                "ChaparFCM",
                "ChaparHMS",
                "ChaparOneSignal", "ChaparIDPush", "ChaparIDPushSDK", "ChaparAltcraft", "ChaparAltcraftSDK",
                "ChaparChabok",
                "ChaparReleaseNotes", "ChaparSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/ComposeInCode",
            swiftSettings: strict
        ),
        // Ten everyday programs, of at most fifteen lines each (`.ci/everyday`): nine in one executable, one a test.
        .executableTarget(
            name: "Everyday",
            dependencies: [
                "ChaparClient", "ChaparOAuth", "ChaparAPNs", "ChaparFCM", "ChaparHMS", "ChaparService",
                "ChaparGateway", "ChaparStoreSQLite", "ChaparSandbox",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: observability),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: observability),
                .product(name: "MetricsTestKit", package: "swift-metrics", condition: observability),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: lifecycle),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: observability),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: lifecycle),
            ],
            path: "Examples/Everyday",
            exclude: ["Tests"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "EverydayTests",
            dependencies: ["ChaparClient", "ChaparAPNs", "ChaparSandbox"],
            path: "Examples/Everyday/Tests",
            swiftSettings: strict
        ),
        // A Hummingbird application with a gateway within.
        .executableTarget(
            name: "Embedded",
            dependencies: [
                "ChaparCore", "ChaparHTTP", "ChaparAPNs", "ChaparGateway", "ChaparQueue", "ChaparStoreSQLite",
                "ChaparSandbox",
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
                "ChaparCore", "ChaparHTTP", "ChaparSandbox", "ChaparTesting",
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            path: "Examples/BatchPlugin",
            swiftSettings: strict
        ),
        // The samples of the documents that Chapar comes from.
        .executableTarget(
            name: "SeedsExample",
            dependencies: [
                "ChaparCore", "ChaparOAuth", "ChaparHTTP", "ChaparIDPush", "ChaparIDPushSDK", "ChaparAltcraft",
                "ChaparAltcraftSDK", "ChaparChabok", "ChaparChabokSDK", "ChaparSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/Seeds",
            swiftSettings: strict
        ),

        .testTarget(
            name: "ChaparJSONTests",
            dependencies: ["ChaparCore", "ChaparJSON"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparClientTests",
            dependencies: ["ChaparClient"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparCoreTests",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparTesting",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparCompositionTests",
            dependencies: [
                "ChaparComposition", "ChaparCore", "ChaparQueue", "ChaparTesting", "ChaparStoreContract",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparQueueTests",
            dependencies: ["ChaparQueue", "ChaparComposition", "ChaparCore"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparObservabilityTests",
            dependencies: [
                "ChaparObservability", "ChaparHTTP", "ChaparCore",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: observability),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics", condition: observability),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: lifecycle),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle", condition: lifecycle),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: observability),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparOAuthTests",
            dependencies: [
                "ChaparCore", "ChaparOAuth", "ChaparHTTP", "ChaparTesting", "ChaparSandbox",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparHTTPTests",
            dependencies: [
                "ChaparHTTP", "ChaparCore", "ChaparTesting", "CChaparNghttp2",
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
        pluginTests("ChaparAPNsTests", ["ChaparAPNs", "ChaparComposition", crypto]),
        pluginTests("ChaparFCMTests", ["ChaparFCM", cryptoExtras]),
        pluginTests("ChaparHMSTests", ["ChaparHMS", crypto]),
        pluginTests("ChaparRuStoreTests", ["ChaparRuStore"]),
        pluginTests("ChaparOneSignalTests", ["ChaparOneSignal", "ChaparOneSignalDevices", "OneSignalBench"]),
        pluginTests(
            "ChaparIDPushTests",
            ["ChaparIDPush", "ChaparIDPushSDK", "ChaparOneSignal", "ChaparOneSignalDevices", "OneSignalBench"]
        ),
        // The simulator that the tests of OneSignal and IDPush share.
        .target(
            name: "OneSignalBench",
            dependencies: ["ChaparHTTP", "ChaparCore", "ChaparTesting", "ChaparSandbox", logging],
            path: "Tests/OneSignalBench",
            swiftSettings: strict
        ),
        pluginTests(
            "ChaparAltcraftTests",
            ["ChaparAltcraft", "ChaparAltcraftSDK", "ChaparAPNs", "ChaparFCM", "ChaparHMS", crypto, cryptoExtras]
        ),
        pluginTests("ChaparServiceTests", ["ChaparService"]),
        pluginTests("ChaparWebPushTests", ["ChaparWebPush", crypto]),
        pluginTests("ChaparChabokTests", ["ChaparChabok", "ChaparChabokSDK"]),
        pluginTests("ChaparGorushTests", ["ChaparGorush", "ChaparModules", "ChaparQueue"]),
        pluginTests("ChaparReleaseNotesTests", ["ChaparReleaseNotes", "ChaparModules", "ChaparQueue"]),
        .testTarget(
            name: "ChaparStoreSQLiteTests",
            dependencies: [
                "ChaparStoreSQLite", "ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparTesting",
                "ChaparStoreContract",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparStorePostgresTests",
            dependencies: [
                "ChaparStorePostgres", "ChaparStoreSQLite", "ChaparCore", "ChaparComposition", "ChaparQueue",
                "ChaparTesting", "ChaparStoreContract", "ChaparSandbox", "CChaparPostgres",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
            ],
            exclude: ["Schemas"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparSandboxTests",
            dependencies: [
                "ChaparSandbox", "ChaparSimulator", "ChaparAPNsSimulator", "ChaparOneSignalSimulator", "ChaparHTTP",
                "ChaparCore", "ChaparTesting", "CChaparNghttp2",
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
            name: "ChaparGatewayTests",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparOAuth", "ChaparQueue", "ChaparModules",
                "ChaparGateway", "ChaparServer", "ChaparAPI", "ChaparDelivery",
                "ChaparTesting", "ChaparStoreContract",
                "ChaparStoreSQLite", "ChaparSandbox",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: gateway),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird", condition: gateway),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: gateway),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: gateway),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle", condition: gateway),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: gateway),
            ],
            exclude: ["Configuration/Fixtures", "Tracing/Fixtures", "Webhooks/Fixtures"],
            swiftSettings: strict
        ),
        // The whole gateway under a seed: see docs/Simulation.md.
        .target(name: "SimulationHooks", path: "Tests/Simulation/Hooks"),
        .executableTarget(
            name: "ChaparSimulation",
            dependencies: [
                "ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparStoreSQLite", "ChaparTesting",
                "ChaparGateway", "ChaparServer", "ChaparAPI", "ChaparDelivery",
                "ChaparStoreContract",
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
                "ChaparCore", "ChaparComposition", "ChaparQueue", "ChaparHTTP", "ChaparTesting",
                "ChaparGateway", "ChaparServer", "ChaparAPI", "ChaparDelivery",
                "ChaparStoreContract",
                "ChaparAPNs",
                "ChaparFCM",
                "ChaparHMS", "ChaparOneSignal", "ChaparIDPush", "ChaparChabok", "ChaparAltcraft", "ChaparService",
                "ChaparWebPush",
                "ChaparRuStore",
                "ChaparStoreSQLite",
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
            dependencies: ["ChaparCore", .product(name: "GRDBSQLite", package: "GRDB.swift", condition: gateway)],
            path: "Tests/Simulation/Disk",
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulationDiskTests",
            dependencies: [
                "SimulationDisk", "ChaparStoreSQLite", "ChaparCore", "ChaparComposition", "ChaparQueue",
                "ChaparTesting",
                .product(name: "GRDB", package: "GRDB.swift", condition: gateway),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ChaparTests",
            dependencies: [
                "chapar", "ChaparCommands", "ChaparAPNs", "ChaparFCM", "ChaparHMS", "ChaparSandbox",
                "ChaparGateway", "ChaparServer", "ChaparAPI", "ChaparDelivery",
                "ChaparCore", "ChaparComposition", "ChaparTesting",
                .target(name: "ChaparStorePostgres", condition: .when(traits: ["Postgres"])),
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
