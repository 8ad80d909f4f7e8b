// Without its trait the module does not find the packages that it imports: this says what to do.
#if !Gateway
    #error("ChaparGateway needs the trait Gateway: .package(name: \"chapar\", …, traits: [\"Gateway\"])")
#endif
