module keyrun.test/bench

go 1.24
