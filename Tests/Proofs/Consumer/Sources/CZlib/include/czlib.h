int czlib_of_the_service(void);
