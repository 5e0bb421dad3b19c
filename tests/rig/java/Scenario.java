/** A row of checks that belong together; it throws at the first that fails. */
interface Scenario {
    void run(Clients clients, Checks checks, String[] arguments) throws Exception;
}
