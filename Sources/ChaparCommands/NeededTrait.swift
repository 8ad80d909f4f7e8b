// Without its trait the module does not find the packages that it imports: this says what to do.
#if !Commands
    #error("ChaparCommands needs the trait Commands: .package(name: \"chapar\", …, traits: [\"Commands\"])")
#endif
