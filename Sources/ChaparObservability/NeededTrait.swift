// Without its trait the module does not find the packages that it imports: this says what to do.
#if !Services
    #error("ChaparObservability needs the trait Services: .package(name: \"chapar\", …, traits: [\"Services\"])")
#endif
